// The defaults of cache settings, and settings that go to a message and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>

#include "services/manager/cache_options.h"

namespace folio::manager {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr CacheRules kRules = {16, 2, {}};

TEST(CacheConfig, DefaultsAreFullAndPipelined) {
  auto config = CacheConfigFromProto({}, kRules, {});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(std::holds_alternative<policy::FullSpec>(config->policy.spec()));
  EXPECT_EQ(config->budget.value(), 0U);
  EXPECT_EQ(config->sink.value(), 0U);
  EXPECT_EQ(config->recent.value(), 0U);
  EXPECT_EQ(config->mode, policy::EvictionMode::kPipelined);
}

TEST(CacheConfig, UnsetProtectionIsOnePageAndZeroIsZero) {
  v1::CacheOptions options;
  options.mutable_policy()->mutable_streaming_llm();
  options.set_budget_tokens(64);
  EXPECT_EQ(CacheConfigFromProto(options, kRules, {})->sink.value(), 16U);
  EXPECT_EQ(CacheConfigFromProto(options, CacheRules{32, 2, {}}, {})->recent.value(), 32U);
  options.set_sink_tokens(0);
  options.set_recent_tokens(0);
  auto config = CacheConfigFromProto(options, kRules, {});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->sink.value(), 0U);
  EXPECT_EQ(config->recent.value(), 0U);
}

TEST(CacheConfig, FullHasNothingToProtect) {
  // What OpenResult says may be sent again.
  v1::CacheOptions zero;
  zero.mutable_policy()->mutable_full();
  zero.set_sink_tokens(0);
  zero.set_recent_tokens(0);
  EXPECT_TRUE(CacheConfigFromProto(zero, kRules, {}).ok());

  v1::CacheOptions sink = zero;
  sink.set_sink_tokens(16);
  v1::CacheOptions recent;  // no policy is full
  recent.set_recent_tokens(7);
  for (const auto& [options, words] :
       {std::pair(sink, "sink_tokens 16 does not go with policy full"),
        std::pair(recent, "recent_tokens 7 does not go with policy full")}) {
    const absl::Status refused = CacheConfigFromProto(options, kRules, {}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(words), HasSubstr("choose a policy that evicts")));
  }
}

TEST(CacheConfig, GoesThereAndBackForEveryPolicyAndMode) {
  const policy::PolicySpec kPolicies[] = {
      policy::FullSpec{},
      policy::PagedEvictionSpec{},
      policy::StreamingLlmSpec{},
      policy::InverseKeyNormSpec{},
      policy::ValueNormSpec{},
      policy::KeyDiffSpec{},
      policy::SnapKvSpec{9, 11},
      policy::QueryDiffSpec{{0.75F, 3, 5}},
      policy::RandomSpec{77},
      policy::KvCrushSpec{policy::SnapKvSpec{5, 3},
                          {0.125F, policy::CrushAnchor::kRandom, 3, true}},
      policy::KvCrushSpec{policy::KeyDiffSpec{}, {0.5F, policy::CrushAnchor::kZeros, 0, false}}};
  for (const policy::PolicySpec& spec : kPolicies) {
    for (const auto mode : {policy::EvictionMode::kPipelined, policy::EvictionMode::kSynchronous}) {
      policy::CacheConfig config;
      config.policy = policy::ChosenPolicy(spec);
      if (!std::holds_alternative<policy::FullSpec>(spec)) {
        config.budget = TokenCount(128);
        config.sink = TokenCount(0);
        config.recent = TokenCount(48);
      }
      config.mode = mode;
      auto back = CacheConfigFromProto(CacheConfigToProto(config), kRules, {});
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(back->policy.spec().index(), spec.index());
      EXPECT_EQ(CacheConfigToProto(*back).SerializeAsString(),
                CacheConfigToProto(config).SerializeAsString());
      EXPECT_EQ(back->budget, config.budget);
      EXPECT_EQ(back->sink, config.sink);
      EXPECT_EQ(back->recent, config.recent);
      EXPECT_EQ(back->mode, mode);
    }
  }
}

}  // namespace
}  // namespace folio::manager
