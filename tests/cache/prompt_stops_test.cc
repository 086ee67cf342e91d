#include "services/base/prompt_stops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace folio {
namespace {

using ::testing::ElementsAre;

std::vector<uint32_t> All(const PromptStops& stops, uint32_t prompt) {
  std::vector<uint32_t> all;
  for (uint32_t at = 0; at < prompt; all.push_back(at)) at = stops.Next(at);
  return all;
}

TEST(PromptStops, WithoutAStrideTheEndIsTheOnlyOne) {
  const PromptStops stops(100, 0, 16);
  EXPECT_THAT(All(stops, 100), ElementsAre(100));
  EXPECT_TRUE(stops.IsStop(100));
  EXPECT_FALSE(stops.IsStop(99) || stops.IsStop(0) || stops.IsStop(101));
  EXPECT_EQ(stops.longest(), 100U);
}

TEST(PromptStops, ComeAtMultiplesOfTheStrideAndAtTheEnd) {
  const PromptStops stops(100, 32, 0);
  EXPECT_THAT(All(stops, 100), ElementsAre(32, 64, 96, 100));
  EXPECT_EQ(stops.Next(40), 64U);
  EXPECT_TRUE(stops.IsStop(64));
  EXPECT_FALSE(stops.IsStop(63));
  EXPECT_EQ(stops.longest(), 32U);
  EXPECT_THAT(All(PromptStops(96, 32, 0), 96), ElementsAre(32, 64, 96));
}

TEST(PromptStops, LeaveTheLastQueriesInOnePiece) {
  EXPECT_THAT(All(PromptStops(100, 32, 4), 100), ElementsAre(32, 64, 96, 100));
  const PromptStops stops(100, 32, 5);
  EXPECT_THAT(All(stops, 100), ElementsAre(32, 64, 100));
  EXPECT_EQ(stops.longest(), 36U);
  EXPECT_THAT(All(PromptStops(20, 16, 30), 20), ElementsAre(20));
}

TEST(PromptStops, NeverLieFurtherApartThanTheLongest) {
  for (uint32_t prompt = 1; prompt < 90; ++prompt) {
    for (const uint32_t stride : {0U, 1U, 4U, 16U, 64U}) {
      for (const uint32_t tail : {0U, 1U, 3U, 20U}) {
        const PromptStops stops(prompt, stride, tail);
        uint32_t before = 0;
        for (const uint32_t at : All(stops, prompt)) {
          ASSERT_LE(at - before, stops.longest()) << prompt << " " << stride << " " << tail;
          ASSERT_TRUE(stops.IsStop(at));
          ASSERT_EQ(stops.Next(at - 1), at);
          before = at;
        }
        ASSERT_EQ(before, prompt);
        ASSERT_GE(prompt - (before == prompt ? 0 : before), std::min(tail, prompt));
      }
    }
  }
}

TEST(PromptStops, DoNotOverflow) {
  const PromptStops stops(UINT32_MAX, 1U << 31, 1);
  EXPECT_EQ(stops.Next(0), 1U << 31);
  EXPECT_EQ(stops.Next(1U << 31), UINT32_MAX);
}

}  // namespace
}  // namespace folio
