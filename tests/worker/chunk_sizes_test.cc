// Chunk sizes on devices of known speed.
#include "services/worker/engine/chunk_sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace folio::worker {
namespace {

// A step's time is that of reading the weights or of the arithmetic, whichever is longer, of
// attention and of the decodes. All in seconds.
struct Device {
  double weights = 0.002;
  double token = 5e-6;
  double decode = 1e-5;
  double attention = 0;  // of a prompt token to a token of its context
  double prompts = 0;    // of any step with prompts
  uint32_t tile = 1;     // tokens are computed in multiples of it

  double Time(const StepSize& size) const {
    const uint32_t tiles = (size.prompt_tokens + tile - 1) / tile;
    const double attended = attention * size.prompt_tokens * size.context;
    return std::max(weights, token * tiles * tile) + attended + decode * size.decodes +
           (size.prompt_tokens > 0 ? prompts : 0);
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
      const StepSize size = {decodes, Tokens(sizes, decodes)};
      seconds = device.Time(size);
      std::uniform_real_distribution<double> factor(1, 1 + noise);
      sizes.Add(size, absl::Seconds(seconds * factor(random_)));
    }
    return seconds;
  }
  static uint32_t Tokens(const ChunkSizes& sizes, uint32_t decodes) {
    return sizes.Choose(decodes).Tokens(8192, 0);
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
  EXPECT_EQ(Tokens(sizes, 0), 300U);
  EXPECT_EQ(Tokens(sizes, 4), 70U);
  ChunkSizes small({.alone = 32, .beside_decodes = 70});
  EXPECT_EQ(Tokens(small, 1), 32U);
}

// The times between two tokens of streams, in seconds, while a prompt arrives every second. The
// times of steps vary by some percent, and one of 500 takes half as long again.
struct Gaps {
  std::vector<double> all, beside_prompts;

  static double Of(std::vector<double>& times, double share) {
    std::sort(times.begin(), times.end());
    return times[static_cast<size_t>(share * static_cast<double>(times.size()))];
  }
};

Gaps RunStreams(const Device& device, double noise, uint32_t prompt, int prompts) {
  TokenBudget budget = kGpu;
  budget.most_times_decode = 2.4;
  budget.least = 128;
  ChunkSizes sizes(budget);
  std::mt19937 random(7);
  std::normal_distribution<double> varies(0, noise);
  std::uniform_int_distribution<int> dice(0, 499);
  constexpr uint32_t kStreams = 32;
  Gaps gaps;
  uint32_t left = 0;
  double now = 0;
  for (int arrived = 0; arrived < prompts || left > 0;) {
    if (left == 0 && now >= arrived) {
      left = prompt;
      ++arrived;
    }
    StepSize size = {kStreams, 0};
    if (left > 0) {
      const uint32_t context = prompt - left;
      size.prompt_tokens = sizes.Choose(kStreams).Tokens(left, context);
      size.context = context + size.prompt_tokens / 2.0;
      left -= size.prompt_tokens;
    }
    double seconds = device.Time(size) * std::exp(varies(random));
    if (dice(random) == 0) seconds *= 1.5;
    sizes.Add(size, absl::Seconds(seconds));
    now += seconds;
    gaps.all.push_back(seconds);
    if (size.prompt_tokens > 0) gaps.beside_prompts.push_back(seconds);
  }
  return gaps;
}

// Devices like an H200 with models of 1B and 8B, and one whose attention is slow.
TEST(ChunkSizesTail, NearlyAllStepsTakeAtMostSoManyTimesAsLongAsDecoding) {
  const Device kDevices[] = {
      {.weights = 1.3e-3, .token = 3.2e-6, .decode = 4e-6, .attention = 2.5e-10, .prompts = 8e-4},
      {.weights = 5.2e-3, .token = 2e-5, .decode = 2e-5, .attention = 9e-10, .prompts = 1e-3},
      {.weights = 5.2e-3, .token = 2e-5, .decode = 2e-5, .attention = 3e-9, .prompts = 1e-3}};
  for (Device device : kDevices) {
    for (const uint32_t tile : {1U, 128U}) {
      device.tile = tile;
      for (const double noise : {0.02, 0.08}) {
        Gaps gaps = RunStreams(device, noise, 8192, 40);
        const double median = Gaps::Of(gaps.all, 0.5);
        const auto what = testing::Message() << device.token << " " << device.attention << " tile "
                                             << tile << " noise " << noise;
        EXPECT_LE(Gaps::Of(gaps.all, 0.99), 2.5 * median) << what;
        EXPECT_LE(Gaps::Of(gaps.beside_prompts, 0.9), 2.45 * median) << what;
        // Prompts do not pay for it with much of their rate.
        EXPECT_GE(Gaps::Of(gaps.beside_prompts, 0.5), 1.8 * median) << what;
      }
    }
  }
}

// They say nothing about how long ones vary.
TEST_F(ChunkSizesTest, ShortPromptsDoNotMakeLongChunksShorter) {
  TokenBudget budget = kGpu;
  budget.most_times_decode = 2.4;
  budget.least = 128;
  const Device device = {.weights = 5.2e-3, .token = 2e-5};
  const auto tokens = [&](bool with_short_ones) {
    ChunkSizes sizes(budget);
    Decode(sizes, device, 32);
    for (int i = 0; i < 200; ++i) {
      Run(sizes, device, 32, 1, 0.05);
      const StepSize small = {32, 10};
      if (with_short_ones) sizes.Add(small, absl::Seconds(device.Time(small)));
    }
    return Tokens(sizes, 32);
  };
  const uint32_t without = tokens(false);
  EXPECT_GE(without, 256U);
  EXPECT_NEAR(tokens(true), without, without / 10);
}

// Also while the number of streams changes. Without prompts the target is far away.
TEST_F(ChunkSizesTest, StepsAreAtMostSoManyTimesAsLongAsDecoding) {
  TokenBudget budget = kGpu;
  budget.most_times_decode = 2.5;
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
      const bool all = Tokens(sizes, decodes) == 8192;
      EXPECT_LE(seconds, 0.045) << token << " " << decodes;
      EXPECT_TRUE(all || seconds >= 0.03) << token << " " << decodes << ": " << seconds;
    }
  }
}

// The first step of a GPU loads kernels, and another process may take a processor for a while.
TEST_F(ChunkSizesTest, OneSlowStepIsForgotten) {
  const Device device;
  ChunkSizes sizes(kGpu);
  sizes.Add({0, Tokens(sizes, 0)}, absl::Seconds(2));
  Run(sizes, device, 0, 6);
  EXPECT_EQ(Tokens(sizes, 0), 8192U);
  Decode(sizes, device, 8);
  Run(sizes, device, 8, 20);
  const uint32_t before = Tokens(sizes, 8);
  sizes.Add({8, before}, absl::Seconds(1));
  EXPECT_GE(Tokens(sizes, 8), before / 3);
  Run(sizes, device, 8, 6);
  EXPECT_GE(Tokens(sizes, 8), before * 9 / 10);
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
  EXPECT_GE(Tokens(sizes, 4), 16U);
  EXPECT_LE(seconds, 1.6 * device.Time({4, 0}));
}

TEST_F(ChunkSizesTest, StepsWithoutDecodesTakeFiveTargets) {
  ChunkSizes sizes(kGpu);
  EXPECT_EQ(Tokens(sizes, 0), 512U);
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
  const uint32_t alone = Tokens(sizes, 0);
  sizes.Add({0, 0}, absl::Seconds(5));
  sizes.Add({0, 3}, absl::Seconds(1));  // a prompt of three tokens
  sizes.Add({0, 4096}, absl::ZeroDuration());
  EXPECT_EQ(Tokens(sizes, 0), alone);
}

}  // namespace
}  // namespace folio::worker
