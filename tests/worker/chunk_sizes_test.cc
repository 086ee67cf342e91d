// Chunk sizes on devices of known speed.
#include "services/worker/engine/chunk_sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace folio::worker {
namespace {

// A step's time is that of reading the weights or of the arithmetic, whichever is longer, and of
// the decodes. All in seconds.
struct Device {
  double weights = 0.002;
  double token = 5e-6;
  double decode = 1e-5;

  double Time(const StepSize& size) const {
    return std::max(weights, token * size.prompt_tokens) + decode * size.decodes;
  }
};

constexpr TokenBudget kGpu = {.alone = 8192,
                              .beside_decodes = 8192,
                              .fixed_alone = false,
                              .fixed_beside_decodes = false,
                              .target_itl = absl::Milliseconds(40)};

class ChunkSizesTest : public ::testing::Test {
 protected:
  // Runs steps with so many decodes and as many prompt tokens as the sizes choose. Returns the last
  // step's time.
  double Run(ChunkSizes& sizes, const Device& device, uint32_t decodes, int steps,
             double noise = 0) {
    double seconds = 0;
    for (int i = 0; i < steps; ++i) {
      const StepSize size = {decodes, sizes.Choose(decodes)};
      seconds = device.Time(size);
      std::uniform_real_distribution<double> factor(1, 1 + noise);
      sizes.Add(size, absl::Seconds(seconds * factor(random_)));
    }
    return seconds;
  }
  // Steps without prompts.
  void Decode(ChunkSizes& sizes, const Device& device, uint32_t decodes, int steps = 10) {
    for (int i = 0; i < steps; ++i) {
      sizes.Add({decodes, 0}, absl::Seconds(device.Time({decodes, 0})));
    }
  }

  std::mt19937 random_{5};
};

TEST_F(ChunkSizesTest, FixedSizesStay) {
  ChunkSizes sizes({.alone = 300, .beside_decodes = 70, .target_itl = absl::Milliseconds(40)});
  sizes.Add({0, 300}, absl::Seconds(30));
  sizes.Add({4, 70}, absl::Seconds(30));
  EXPECT_EQ(sizes.Choose(0), 300U);
  EXPECT_EQ(sizes.Choose(4), 70U);
  ChunkSizes small({.alone = 32, .beside_decodes = 70});
  EXPECT_EQ(small.Choose(1), 32U);
}

// Also while the number of streams changes. Without prompts the target is far away.
TEST_F(ChunkSizesTest, StepsAreAtMostSoManyTimesAsLongAsDecoding) {
  TokenBudget budget = kGpu;
  budget.most_times_decode = 2.25;
  const Device device;
  ChunkSizes sizes(budget);
  Run(sizes, device, 0, 3);
  for (const uint32_t decodes : {32U, 128U, 8U}) {
    Decode(sizes, device, decodes);
    const double alone = device.Time({decodes, 0});
    const double seconds = Run(sizes, device, decodes, 20);
    EXPECT_LE(seconds, 2.5 * alone) << decodes;
    EXPECT_GE(seconds, 1.5 * alone) << decodes;
  }
  // The target holds where decoding takes long.
  const Device slow = {.weights = 0.03};
  Decode(sizes, slow, 8, 20);
  EXPECT_LE(Run(sizes, slow, 8, 20), 0.05);
}

TEST_F(ChunkSizesTest, StepsBesideDecodesComeToTheTarget) {
  for (const double token : {2e-6, 2e-5, 3e-4}) {
    for (const uint32_t decodes : {1U, 32U, 128U}) {
      const Device device = {.token = token};
      ChunkSizes sizes(kGpu);
      Run(sizes, device, 0, 3);
      Decode(sizes, device, decodes);
      const double seconds = Run(sizes, device, decodes, 30, 0.1);
      const bool all = sizes.Choose(decodes) == 8192;
      EXPECT_LE(seconds, 0.045) << token << " " << decodes;
      EXPECT_TRUE(all || seconds >= 0.03) << token << " " << decodes << ": " << seconds;
    }
  }
}

// The first step of a GPU loads kernels, and another process may take a processor for a while.
TEST_F(ChunkSizesTest, OneSlowStepIsForgotten) {
  const Device device;
  ChunkSizes sizes(kGpu);
  sizes.Add({0, sizes.Choose(0)}, absl::Seconds(2));
  Run(sizes, device, 0, 6);
  EXPECT_EQ(sizes.Choose(0), 8192U);
  Decode(sizes, device, 8);
  Run(sizes, device, 8, 20);
  const uint32_t before = sizes.Choose(8);
  sizes.Add({8, before}, absl::Seconds(1));
  EXPECT_GE(sizes.Choose(8), before / 3);
  Run(sizes, device, 8, 6);
  EXPECT_GE(sizes.Choose(8), before * 9 / 10);
}

TEST_F(ChunkSizesTest, ASlowerContextMakesSmallerChunks) {
  ChunkSizes sizes(kGpu);
  Run(sizes, {.token = 5e-6}, 0, 5);
  Decode(sizes, {}, 4);
  Run(sizes, {.token = 5e-6}, 4, 20);
  const double seconds = Run(sizes, {.token = 5e-5}, 4, 20);
  EXPECT_LE(seconds, 0.045);
  EXPECT_GE(seconds, 0.03);
}

// Where decoding alone is over the target, prompts get a share nevertheless.
TEST_F(ChunkSizesTest, PromptsEndBesideSlowDecodes) {
  const Device device = {.weights = 0.08, .token = 1e-3};
  ChunkSizes sizes(kGpu);
  Run(sizes, device, 0, 3);
  Decode(sizes, device, 4);
  const double seconds = Run(sizes, device, 4, 30);
  EXPECT_GE(sizes.Choose(4), 16U);
  EXPECT_LE(seconds, 1.6 * device.Time({4, 0}));
}

TEST_F(ChunkSizesTest, StepsWithoutDecodesTakeFiveTargets) {
  ChunkSizes sizes(kGpu);
  EXPECT_EQ(sizes.Choose(0), 512U);
  const double seconds = Run(sizes, {.token = 1e-4}, 0, 20);
  EXPECT_LE(seconds, 0.21);
  EXPECT_GE(seconds, 0.18);
}

// A model that reads its weights for seconds gets chunks that are worth it.
TEST_F(ChunkSizesTest, ChunksAloneAreWorthReadingTheWeights) {
  const Device device = {.weights = 1.6, .token = 0.03};
  ChunkSizes sizes({.alone = 512,
                    .beside_decodes = 512,
                    .fixed_alone = false,
                    .fixed_beside_decodes = false,
                    .target_itl = absl::Milliseconds(100)});
  Decode(sizes, device, 1);
  const double seconds = Run(sizes, device, 0, 20);
  EXPECT_GE(seconds, 2.5);
  EXPECT_LE(seconds, 3.5);
}

TEST_F(ChunkSizesTest, WhatSaysNothingIsIgnored) {
  ChunkSizes sizes(kGpu);
  Run(sizes, {}, 0, 10);
  const uint32_t alone = sizes.Choose(0);
  sizes.Add({0, 0}, absl::Seconds(5));
  sizes.Add({0, 3}, absl::Seconds(1));  // a prompt of three tokens
  sizes.Add({0, 4096}, absl::ZeroDuration());
  EXPECT_EQ(sizes.Choose(0), alone);
}

}  // namespace
}  // namespace folio::worker
