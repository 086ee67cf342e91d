#include "services/wire/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace folio::wire {
namespace {

using ::testing::StartsWith;

TEST(CheckSampling, FillsInDefaults) {
  const auto greedy = CheckSampling({});
  ASSERT_TRUE(greedy.ok()) << greedy.status();
  EXPECT_EQ(*greedy, SamplingRecord{});
  const SamplingParameters all = {0.5F, 40, 0.9F, 0.05F, UINT64_MAX};
  const auto record = CheckSampling(all);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(*record, (SamplingRecord{0.5F, 40, 0.9F, 0.05F, UINT64_MAX}));
  EXPECT_EQ(ParametersOf(*record), all);
}

TEST(CheckSampling, RefusalsBeginWithTheField) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const struct {
    SamplingParameters sampling;
    const char* field;
  } kCases[] = {
      {{.temperature = -1, .seed = 1}, "sampling.temperature is -1"},
      {{.temperature = nan, .seed = 1}, "sampling.temperature is nan"},
      {{.temperature = infinity, .seed = 1}, "sampling.temperature is inf"},
      {{.top_p = 0.0F}, "sampling.top_p is 0"},
      {{.top_p = -0.5F}, "sampling.top_p is -0.5"},
      {{.top_p = 1.5F}, "sampling.top_p is 1.5"},
      {{.top_p = nan}, "sampling.top_p is nan"},
      {{.min_p = -0.5F}, "sampling.min_p is -0.5"},
      {{.min_p = 1.5F}, "sampling.min_p is 1.5"},
      {{.min_p = nan}, "sampling.min_p is nan"},
      {{.temperature = 1}, "sampling.seed must be set"},
  };
  for (const auto& c : kCases) {
    const absl::Status refused = CheckSampling(c.sampling).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << c.field;
    EXPECT_THAT(std::string(refused.message()), StartsWith(c.field));
  }
}

TEST(Sampling, UnsetTopPIsOffAndGreedyNeedsNoSeed) {
  auto greedy = CheckSampling(FromProto(v1::SamplingParams()));
  ASSERT_TRUE(greedy.ok()) << greedy.status();
  EXPECT_EQ(greedy->top_p, 1.0F);
  EXPECT_EQ(greedy->seed, 0U);
  v1::SamplingParams sampling;
  sampling.set_temperature(0.5);
  sampling.set_top_k(40);
  sampling.set_top_p(0.9F);
  sampling.set_min_p(0.05F);
  sampling.set_seed(UINT64_MAX);
  auto record = CheckSampling(FromProto(sampling));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->temperature, 0.5F);
  EXPECT_EQ(record->top_k, 40U);
  EXPECT_EQ(record->top_p, 0.9F);
  EXPECT_EQ(record->min_p, 0.05F);
  EXPECT_EQ(record->seed, UINT64_MAX);
}

}  // namespace
}  // namespace folio::wire
