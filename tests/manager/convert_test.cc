// What a message leaves out, what the coordinator's types become.
#include "services/manager/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>

namespace folio::manager {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr CacheRules kRules = {16, 2, {}};

TEST(CacheConfig, DefaultsAreFullAndPipelined) {
  auto config = CacheConfigFromProto({}, kRules, {});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(std::holds_alternative<policy::FullSpec>(config->policy));
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
      config.policy = spec;
      if (!std::holds_alternative<policy::FullSpec>(spec)) {
        config.budget = TokenCount(128);
        config.sink = TokenCount(0);
        config.recent = TokenCount(48);
      }
      config.mode = mode;
      auto back = CacheConfigFromProto(CacheConfigToProto(config), kRules, {});
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(back->policy.index(), spec.index());
      EXPECT_EQ(CacheConfigToProto(*back).SerializeAsString(),
                CacheConfigToProto(config).SerializeAsString());
      EXPECT_EQ(back->budget, config.budget);
      EXPECT_EQ(back->sink, config.sink);
      EXPECT_EQ(back->recent, config.recent);
      EXPECT_EQ(back->mode, mode);
    }
  }
}

TEST(Sampling, UnsetTopPIsOffAndGreedyNeedsNoSeed) {
  auto greedy = SamplingFromProto({});
  ASSERT_TRUE(greedy.ok()) << greedy.status();
  EXPECT_EQ(greedy->top_p, 1.0F);
  EXPECT_EQ(greedy->seed, 0U);
  v1::SamplingParams sampling;
  sampling.set_temperature(0.5);
  sampling.set_top_k(40);
  sampling.set_top_p(0.9F);
  sampling.set_min_p(0.05F);
  sampling.set_seed(UINT64_MAX);
  auto record = SamplingFromProto(sampling);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->temperature, 0.5F);
  EXPECT_EQ(record->top_k, 40U);
  EXPECT_EQ(record->top_p, 0.9F);
  EXPECT_EQ(record->min_p, 0.05F);
  EXPECT_EQ(record->seed, UINT64_MAX);
}

TEST(Open, CarriesEverything) {
  v1::OpenSequence open;
  for (const uint32_t token : {5U, 0U, 4294967295U}) open.add_prompt_tokens(token);
  open.set_max_new_tokens(9);
  open.set_label("a label");
  auto request = OpenFromProto(open, WorkerId(3), kRules);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->worker, WorkerId(3));
  EXPECT_THAT(request->prompt, ElementsAre(TokenId(5), TokenId(0), TokenId(4294967295U)));
  EXPECT_EQ(request->max_new_tokens, TokenCount(9));
  EXPECT_EQ(request->notes.label, "a label");
}

TEST(Commit, CarriesEverything) {
  v1::CommitTokens commit;
  commit.set_sequence_id(uint64_t{1} << 40);
  commit.set_lease_epoch(2);
  commit.set_logical_length(33);
  commit.add_sampled_tokens(11);
  commit.add_filled()->set_page(4);
  commit.mutable_filled(0)->set_generation(6);
  const cache::CommitRequest request = CommitFromProto(commit, WorkerId(1));
  EXPECT_EQ(request.sequence, SequenceId(uint64_t{1} << 40));
  EXPECT_EQ(request.lease_epoch, LeaseEpoch(2));
  EXPECT_EQ(request.logical_length, TokenCount(33));
  EXPECT_THAT(request.sampled, ElementsAre(TokenId(11)));
  EXPECT_THAT(request.filled, ElementsAre(PageRef{PageId(4), Generation(6)}));
}

TEST(Plan, OfEitherKindIsCarried) {
  cache::Plan plan;
  plan.sequence = SequenceId(8);
  plan.epoch = PlanEpoch(2);
  plan.action = cache::CompactAction{{{SlotIndex(0), SlotIndex(9)}, {SlotIndex(1)}},
                                     {PageCount(2), PageCount(1)}};
  const v1::EvictionPlan compact = PlanToProto(plan);
  EXPECT_EQ(compact.sequence_id(), 8U);
  EXPECT_EQ(compact.plan_epoch(), 2U);
  ASSERT_EQ(compact.compact().layers_size(), 2);
  EXPECT_THAT(compact.compact().layers(0).keep(), ElementsAre(0, 9));
  EXPECT_THAT(compact.compact().layers(1).keep(), ElementsAre(1));
  EXPECT_EQ(compact.compact().layers(0).spare_pages(), 2U);
  EXPECT_EQ(compact.compact().layers(1).spare_pages(), 1U);
  plan.action = cache::DropAction{{BlockIndex(3), BlockIndex(5)}};
  EXPECT_THAT(PlanToProto(plan).drop_page().block_index(), ElementsAre(3, 5));
  EXPECT_EQ(PlanToProto(plan).drop_page().layer_size(), 0);
  plan.action = cache::DropAction{{std::nullopt, BlockIndex(5)}};
  EXPECT_THAT(PlanToProto(plan).drop_page().block_index(), ElementsAre(5));
  EXPECT_THAT(PlanToProto(plan).drop_page().layer(), ElementsAre(1));
}

TEST(Detail, ShowsTablesAndPositions) {
  CacheGeometry geometry;
  geometry.num_layers = 1;
  geometry.num_kv_heads = 1;
  geometry.head_dim = 8;
  cache::SequenceDetail detail;
  detail.info.id = SequenceId(4);
  detail.info.worker = WorkerId(2);
  detail.info.state = cache::SequenceState::kEvicting;
  detail.info.held_pages = PageCount(3);
  detail.info.age = absl::Seconds(2);
  detail.layers.push_back({{{PageId(7), Generation(1)}},
                           TokenCount(10),
                           {{Position(0), Position(4)}, {Position(20), Position(26)}}});
  const v1::GetSequenceResponse out = DetailToProto(detail, geometry);
  EXPECT_EQ(out.sequence().sequence_id(), 4U);
  EXPECT_EQ(out.sequence().worker_id(), "w2");
  EXPECT_EQ(out.sequence().state(), v1::SEQUENCE_STATE_EVICTING);
  EXPECT_EQ(out.sequence().held_bytes(), 3 * geometry.page_bytes());
  EXPECT_EQ(out.sequence().age_ms(), 2000U);
  ASSERT_EQ(out.layers_size(), 1);
  EXPECT_EQ(out.layers(0).resident_tokens(), 10U);
  EXPECT_EQ(out.layers(0).pages(0).page(), 7U);
  ASSERT_EQ(out.layers(0).kept_size(), 2);
  EXPECT_EQ(out.layers(0).kept(1).begin(), 20U);
  EXPECT_EQ(out.layers(0).kept(1).end(), 26U);
}

}  // namespace
}  // namespace folio::manager
