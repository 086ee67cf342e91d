#include "services/wire/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace folio::wire {
namespace {

using ::testing::StartsWith;

TEST(CheckSampling, FillsInDefaults) {
  const auto greedy = CheckSampling({});
  ASSERT_TRUE(greedy.ok()) << greedy.status();
  EXPECT_EQ(*greedy, SamplingRecord{});
  const LogitChanges changes = {-2, 2, 1.3F, {{TokenId(7), -100}, {TokenId(8), 0.5F}}};
  const SamplingParameters all = {0.5F, 40, 0.9F, 0.05F, UINT64_MAX, changes};
  const auto record = CheckSampling(all);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(*record, (SamplingRecord{0.5F, 40, 0.9F, 0.05F, UINT64_MAX, changes}));
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
      {{.changes = {.presence_penalty = 2.5F, .biases = {}}}, "sampling.presence_penalty is 2.5"},
      {{.changes = {.presence_penalty = nan, .biases = {}}}, "sampling.presence_penalty is nan"},
      {{.changes = {.frequency_penalty = -2.5F, .biases = {}}},
       "sampling.frequency_penalty is -2.5"},
      {{.changes = {.frequency_penalty = infinity, .biases = {}}},
       "sampling.frequency_penalty is inf"},
      {{.changes = {.repetition_penalty = 0, .biases = {}}}, "sampling.repetition_penalty is 0"},
      {{.changes = {.repetition_penalty = 101, .biases = {}}},
       "sampling.repetition_penalty is 101"},
      {{.changes = {.repetition_penalty = nan, .biases = {}}},
       "sampling.repetition_penalty is nan"},
      {{.changes = {.biases = {{TokenId(3), 101}}}}, "sampling.logit_bias of token 3 is 101"},
      {{.changes = {.biases = {{TokenId(3), nan}}}}, "sampling.logit_bias of token 3 is nan"},
      {{.changes = {.biases = {{TokenId(3), 1}, {TokenId(3), 1}}}},
       "sampling.logit_bias has token 3 twice"},
      {{.changes = {.biases = std::vector<LogitBias>(1025)}},
       "sampling.logit_bias has 1025 tokens"},
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
  EXPECT_EQ(record->changes, LogitChanges{});
}

TEST(Sampling, ChangesOfLogitsComeBackAsTheyWere) {
  SamplingParameters sampling;
  sampling.changes = {1, -0.5F, 0.75F, {{TokenId(9), 3}, {TokenId(4), -100}}};
  EXPECT_EQ(FromProto(ToProto(sampling)), sampling);
  EXPECT_EQ(FromProto(ToProto({})), SamplingParameters{});
}

}  // namespace
}  // namespace folio::wire
