#include "services/base/fair_turns.h"

#include <gtest/gtest.h>

#include <string>

namespace folio {
namespace {

TEST(FairTurns, TheLeastServedComesFirst) {
  FairTurns turns;
  EXPECT_EQ(turns.served("a"), turns.served("b"));
  turns.Serve("a", 10, 1);
  turns.Serve("b", 4, 1);
  EXPECT_LT(turns.served("b"), turns.served("a"));
  turns.Serve("b", 7, 1);
  EXPECT_LT(turns.served("a"), turns.served("b"));
}

TEST(FairTurns, ATenantThatWasIdleHasSavedNothingUp) {
  FairTurns turns;
  turns.Serve("busy", 1'000'000, 0);
  EXPECT_EQ(turns.served("new"), turns.served("busy"));
  turns.Serve("busy", 10, 1);
  EXPECT_LT(turns.served("new"), turns.served("busy"));
  // So much the new one may have before it is the other's turn again.
  turns.Serve("new", 11, 1);
  EXPECT_LT(turns.served("busy"), turns.served("new"));
}

TEST(FairTurns, ServiceThatNobodyElseWaitedForPutsNobodyAhead) {
  FairTurns turns;
  turns.Serve("alone", 1'000'000, 0);
  EXPECT_EQ(turns.served("alone"), turns.served("new"));
}

// Two tenants of the three wait at any time, and the newcomers are of a new name each time.
TEST(FairTurns, NewcomersDoNotKeepATenantWaitingForever) {
  FairTurns turns;
  turns.Serve("old", 100, 2);
  int newcomers = 0;
  for (; turns.served("old") > turns.served("never seen"); ++newcomers) {
    ASSERT_LT(newcomers, 100);
    const std::string name = std::to_string(newcomers);
    turns.Serve(name, 10, 2);
    // Those that the level has passed are forgotten.
    ASSERT_LT(turns.remembered(), 6U);
  }
  // It had 100 tokens, a third of them counts as its own, so it waits for 200 tokens.
  EXPECT_NEAR(newcomers, 20, 1);
}

TEST(FairTurns, WhatCountsNoMoreIsForgotten) {
  FairTurns turns;
  for (int i = 0; i < 100; ++i) turns.Serve(std::to_string(i), 1 + i, 1'000'000);
  EXPECT_EQ(turns.remembered(), 100U);
  turns.Serve("99", 50, 0);
  turns.Serve("new", 1, 0);
  EXPECT_EQ(turns.remembered(), 51U);  // those with 51 to 100 tokens and the new one
  EXPECT_EQ(turns.served("0"), turns.served("48"));
  EXPECT_LT(turns.served("60"), turns.served("70"));
}

TEST(FairTurns, TwoTenantsOfUnlikeRequestsGetAsMuch) {
  FairTurns turns;
  uint64_t small = 0, large = 0;
  for (int i = 0; i < 10'000; ++i) {
    const bool is_small = turns.served("small") <= turns.served("large");
    turns.Serve(is_small ? "small" : "large", is_small ? 7 : 300, 1);
    (is_small ? small : large) += is_small ? 7 : 300;
  }
  EXPECT_NEAR(static_cast<double>(small), static_cast<double>(large), 310);
}

}  // namespace
}  // namespace folio
