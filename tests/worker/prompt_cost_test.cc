// The cost of prompt tokens, learned from steps, and the tokens that fit into a step.
#include "services/worker/engine/prompt_cost.h"

#include <gtest/gtest.h>

#include <random>

namespace folio::worker {
namespace {

constexpr uint32_t kAll = 100000;  // tokens of a prompt that does not end here

TEST(PromptRoomTest, TokensWeighTheSameWithoutGrowth) {
  PromptRoom room = {.weight = 100, .most = 1000};
  EXPECT_EQ(room.Tokens(kAll, 0), 100U);
  EXPECT_EQ(room.Tokens(kAll, 5000), 100U);
  room.Take(30, 5000);
  EXPECT_EQ(room.Tokens(kAll, 0), 70U);
  room.Take(90, 0);  // a window that had to lie in one chunk
  EXPECT_EQ(room.Tokens(kAll, 0), 0U);
}

TEST(PromptRoomTest, TokensWeighMoreBehindAContext) {
  PromptRoom room = {.weight = 1000, .growth = 1.0 / 4096, .most = 8192};
  for (const uint32_t context : {0U, 1000U, 8000U}) {
    const uint32_t tokens = room.Tokens(kAll, context);
    EXPECT_LE(room.Weight(tokens, context), 1000) << context;
    EXPECT_GT(room.Weight(tokens + 1, context), 1000) << context;
  }
  // A context of 4,096 tokens doubles a token's weight, and the chunk is a context too.
  EXPECT_EQ(room.Tokens(kAll, 4096), 485U);
  const uint32_t first = room.Tokens(kAll, 0) / 2;
  room.Take(first, 0);
  room.Take(room.Tokens(kAll, first), first);
  EXPECT_LE(room.Tokens(kAll, 0), 1U);
}

TEST(PromptRoomTest, ChunksHaveBounds) {
  EXPECT_EQ((PromptRoom{.weight = 1000, .most = 300, .multiple = 16}.Tokens(kAll, 0)), 288U);
  EXPECT_EQ((PromptRoom{.weight = 3, .most = 300, .least = 16, .multiple = 16}.Tokens(kAll, 0)),
            16U);
  EXPECT_EQ((PromptRoom{.weight = 3, .most = 7, .least = 16, .multiple = 16}.Tokens(kAll, 0)), 7U);
  PromptRoom room = {.weight = 20, .most = 300, .least = 16, .multiple = 16};
  room.Take(10, 0);
  EXPECT_EQ(room.Tokens(kAll, 0), 0U);  // the least is for the first chunk alone
  EXPECT_EQ(room.Tokens(9, 0), 9U);     // the end of a prompt may have any number
}

// By the number of tokens as well as by weight, whichever bounds the step.
TEST(PromptRoomTest, AHalfIsKeptApart) {
  PromptRoom room = {.weight = 41, .most = 9, .least = 5};
  const PromptRoom half = room.TakeHalf(1000, 0);
  EXPECT_EQ(room.Tokens(kAll, 0), 4U);
  room.Take(4, 0);
  EXPECT_EQ(room.Tokens(kAll, 0), 0U);
  room.PutBack(half);
  EXPECT_EQ(room.Tokens(kAll, 0), 5U);
  // A prompt that needs less leaves the rest to others.
  room = {.weight = 100, .most = 100};
  EXPECT_EQ(room.TakeHalf(10, 0).most, 10U);
  EXPECT_EQ(room.Tokens(kAll, 0), 90U);
  // What others took too much comes out of it.
  room = {.weight = 16, .most = 16};
  const PromptRoom rest = room.TakeHalf(1000, 0);
  room.Take(12, 0);
  room.PutBack(rest);
  EXPECT_EQ(room.Tokens(kAll, 0), 4U);
}

class PromptCostTest : public ::testing::Test {
 protected:
  // Steps of a prompt in chunks of 256, each token of which takes so many seconds.
  void Prompt(uint32_t tokens, double at_start, double growth, double noise = 0) {
    std::uniform_real_distribution<double> varies(1 - noise, 1 + noise);
    for (uint32_t fed = 0; fed < tokens; fed += 256) {
      const double context = fed + 128;
      const double seconds = 256 * at_start * (1 + growth * context) * varies(random_);
      cost_.Add(256, context, seconds, /*long_enough=*/true);
    }
  }

  PromptCost cost_;
  std::mt19937 random_{3};
};

TEST_F(PromptCostTest, LearnsHowCostGrowsWithTheContext) {
  for (const double growth : {0.0, 1e-5, 2e-4}) {
    cost_ = {};
    for (int i = 0; i < 3; ++i) Prompt(8192, 1e-5, growth, 0.05);
    EXPECT_NEAR(cost_.growth(), growth, 2e-5 + growth / 5) << growth;
    const double wanted = 256 * 1e-5 * (1 + growth * 6000);
    EXPECT_NEAR(cost_.Seconds(256, 6000), wanted, wanted / 8) << growth;
  }
}

// They say nothing about contexts, so that what is known of those stays.
TEST_F(PromptCostTest, ShortPromptsLeaveGrowthAlone) {
  for (int i = 0; i < 200; ++i) Prompt(256, 1e-5, 0, 0.1);
  EXPECT_EQ(cost_.growth(), 0);
  Prompt(8192, 1e-5, 1e-4);
  const double growth = cost_.growth();
  EXPECT_GT(growth, 5e-5);
  for (int i = 0; i < 400; ++i) Prompt(256, 1e-5, 1e-4, 0.1);
  EXPECT_NEAR(cost_.growth(), growth, growth / 3);
  // A device that became slower is no reason to doubt it for long.
  for (int i = 0; i < 20; ++i) Prompt(256, 2e-5, 1e-4, 0.1);
  EXPECT_NEAR(cost_.Seconds(256, 128), 256 * 2e-5, 256 * 4e-6);
}

TEST_F(PromptCostTest, AStepThatWasHeldUpDoesNotTilt) {
  Prompt(8192, 1e-5, 1e-4);
  const double growth = cost_.growth();
  cost_.Add(256, 8000, 30, /*long_enough=*/true);
  EXPECT_LE(cost_.growth(), 4 * growth);
  Prompt(8192, 1e-5, 1e-4);
  Prompt(8192, 1e-5, 1e-4);
  Prompt(8192, 1e-5, 1e-4);
  EXPECT_NEAR(cost_.growth(), growth, growth / 2);
}

TEST_F(PromptCostTest, AShortChunkOnlySaysThatTokensCostNoMore) {
  cost_.Add(3, 0, 1, /*long_enough=*/false);
  EXPECT_FALSE(cost_.known());
  Prompt(1024, 1e-5, 0);
  cost_.Add(3, 0, 1, /*long_enough=*/false);
  EXPECT_NEAR(cost_.Seconds(1, 0), 1e-5, 1e-7);
  cost_.Add(3, 0, 3e-6, /*long_enough=*/false);
  EXPECT_LT(cost_.Seconds(1, 0), 0.5e-5);
}

}  // namespace
}  // namespace folio::worker
