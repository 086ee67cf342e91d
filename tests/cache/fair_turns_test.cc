#include "services/base/fair_turns.h"

#include <gtest/gtest.h>

#include <string>

namespace folio {
namespace {

TEST(FairTurns, TheLeastServedComesFirst) {
  FairTurns turns;
  EXPECT_EQ(turns.served("a"), turns.served("b"));
  turns.Serve("a", 10);
  turns.Serve("b", 4);
  EXPECT_LT(turns.served("b"), turns.served("a"));
  turns.Serve("b", 7);
  EXPECT_LT(turns.served("a"), turns.served("b"));
}

TEST(FairTurns, ATenantThatWasIdleHasSavedNothingUp) {
  FairTurns turns;
  turns.Serve("busy", 1'000'000);
  turns.OnTurn("busy");
  EXPECT_EQ(turns.served("new"), turns.served("busy"));
  turns.Serve("busy", 10);
  EXPECT_LT(turns.served("new"), turns.served("busy"));
  // So much the new one may have before it is the other's turn again.
  turns.Serve("new", 11);
  EXPECT_LT(turns.served("busy"), turns.served("new"));
}

TEST(FairTurns, WhatCountsNoMoreIsForgotten) {
  FairTurns turns;
  for (int i = 0; i < 100; ++i) turns.Serve(std::to_string(i), 1 + i);
  EXPECT_EQ(turns.remembered(), 100U);
  turns.OnTurn("49");
  EXPECT_EQ(turns.remembered(), 50U);
  EXPECT_EQ(turns.served("0"), turns.served("49"));
  EXPECT_LT(turns.served("49"), turns.served("50"));
}

TEST(FairTurns, TwoTenantsOfUnlikeRequestsGetAsMuch) {
  FairTurns turns;
  uint64_t small = 0, large = 0;
  for (int i = 0; i < 10'000; ++i) {
    const bool is_small = turns.served("small") <= turns.served("large");
    turns.OnTurn(is_small ? "small" : "large");
    turns.Serve(is_small ? "small" : "large", is_small ? 7 : 300);
    (is_small ? small : large) += is_small ? 7 : 300;
  }
  EXPECT_NEAR(static_cast<double>(small), static_cast<double>(large), 310);
}

}  // namespace
}  // namespace folio
