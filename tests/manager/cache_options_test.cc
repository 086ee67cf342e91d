// Policies and budgets, from what a request says to what the coordinator is told.
#include "services/manager/cache_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace folio::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr CacheRules kOptionRules = {16, 3, {}};
constexpr RequestShape kRequest = {1000, 50, 42};

v1::CacheOptions Paged() {
  v1::CacheOptions options;
  options.mutable_policy()->mutable_paged_eviction();
  return options;
}

TEST(CachePolicy, DefaultsOfParameters) {
  v1::CacheOptions options;
  options.set_budget_tokens(512);
  options.mutable_policy()->mutable_snap_kv();
  auto config = CacheConfigFromProto(options, kOptionRules, kRequest);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(std::get<policy::SnapKvSpec>(config->policy.spec()).window, 64U);

  options.mutable_policy()->mutable_random();
  EXPECT_EQ(std::get<policy::RandomSpec>(
                CacheConfigFromProto(options, kOptionRules, kRequest)->policy.spec())
                .seed,
            42U);

  options.mutable_policy()->mutable_kv_crush();
  config = CacheConfigFromProto(options, kOptionRules, kRequest);
  const auto& crush = std::get<policy::KvCrushSpec>(config->policy.spec());
  EXPECT_TRUE(std::holds_alternative<policy::PagedEvictionSpec>(crush.base));
  EXPECT_EQ(crush.options.share, 0.25F);
  EXPECT_EQ(crush.options.anchor, policy::CrushAnchor::kMean);
}

TEST(CacheBudget, AShareOfThePromptInWholePages) {
  v1::CacheOptions options = Paged();
  options.set_budget_share(0.25F);
  EXPECT_EQ(CacheConfigFromProto(options, kOptionRules, kRequest)->budget, TokenCount(256));
  options.set_budget_share(1);
  EXPECT_EQ(CacheConfigFromProto(options, kOptionRules, kRequest)->budget, TokenCount(1008));
  // Never below what is protected.
  options.set_budget_share(0.001F);
  EXPECT_EQ(CacheConfigFromProto(options, kOptionRules, kRequest)->budget, TokenCount(32));
}

TEST(CacheBudget, OnePerLayerGoesThereAndBack) {
  v1::CacheOptions options = Paged();
  for (const uint32_t budget : {64U, 32U, 48U}) options.add_layer_budget_tokens(budget);
  auto config = CacheConfigFromProto(options, kOptionRules, kRequest);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->budget, TokenCount(64));
  EXPECT_THAT(config->layer_budgets, ElementsAre(TokenCount(64), TokenCount(32), TokenCount(48)));
  const v1::CacheOptions answered = CacheConfigToProto(*config);
  EXPECT_EQ(answered.budget_tokens(), 64U);
  auto again = CacheConfigFromProto(answered, kOptionRules, kRequest);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->layer_budgets, config->layer_budgets);
}

TEST(CacheBudget, APyramidKeepsTheSum) {
  v1::CacheOptions options = Paged();
  options.set_budget_tokens(160);
  options.set_budget_schedule(v1::BUDGET_SCHEDULE_PYRAMID);
  auto config = CacheConfigFromProto(options, kOptionRules, kRequest);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->layer_budgets, ElementsAre(TokenCount(240), TokenCount(160), TokenCount(80)));
}

TEST(CacheBudget, TheOperatorsDefaultAndCeiling) {
  CacheRules rules = kOptionRules;
  rules.budgets.default_tokens = TokenCount(320);
  rules.budgets.ceiling = TokenCount(640);
  EXPECT_EQ(CacheConfigFromProto(Paged(), rules, kRequest)->budget, TokenCount(320));
  rules.budgets.default_tokens = TokenCount(0);
  rules.budgets.default_share = 0.5;
  EXPECT_EQ(CacheConfigFromProto(Paged(), rules, kRequest)->budget, TokenCount(512));
  rules.budgets.default_share = 0.9;  // 900 tokens: cut down
  EXPECT_EQ(CacheConfigFromProto(Paged(), rules, kRequest)->budget, TokenCount(640));
  EXPECT_TRUE(CacheConfigFromProto({}, rules, {600, 40, 0}).ok()) << "full within the ceiling";
}

TEST(CacheLayers, GoThereAndBack) {
  v1::CacheOptions options = Paged();
  options.set_budget_tokens(512);
  EXPECT_EQ(CacheConfigFromProto(options, kOptionRules, kRequest)->layers,
            policy::Layers::kPerLayer);
  options.set_layers(v1::LAYERS_SHARED);
  const auto config = CacheConfigFromProto(options, kOptionRules, kRequest);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->layers, policy::Layers::kShared);
  EXPECT_EQ(CacheConfigToProto(*config).layers(), v1::LAYERS_SHARED);
}

TEST(CacheShares, GoThereAndBack) {
  v1::CacheOptions options = Paged();
  options.set_budget_tokens(512);
  EXPECT_EQ(CacheConfigFromProto(options, kOptionRules, kRequest)->shares, policy::Shares{});
  options.set_prompt_share(0.5F);
  options.set_protect_ends(0.1F);
  options.set_segments(8);
  const auto config = CacheConfigFromProto(options, kOptionRules, kRequest);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->shares, (policy::Shares{.prompt = 0.5F, .ends = 0.1F, .segments = 8}));
  const v1::CacheOptions back = CacheConfigToProto(*config);
  EXPECT_EQ(back.prompt_share(), 0.5F);
  EXPECT_EQ(back.protect_ends(), 0.1F);
  EXPECT_EQ(back.segments(), 8U);
}

v1::CacheOptions QueryDiff(uint32_t budget) {
  v1::CacheOptions options;
  options.mutable_policy()->mutable_query_diff();
  options.set_budget_tokens(budget);
  return options;
}

TEST(CacheShares, FoliosOwnPolicyLeavesAShareToThePrompt) {
  v1::CacheOptions options = QueryDiff(512);
  const auto prompt_share = [&] {
    return CacheConfigFromProto(options, kOptionRules, kRequest)->shares.prompt;
  };
  EXPECT_EQ(prompt_share(), 0.4F);
  options.set_prompt_share(0);
  EXPECT_EQ(prompt_share(), 0) << "a request may say otherwise";
  options.set_prompt_share(0.25F);
  EXPECT_EQ(prompt_share(), 0.25F);
  options.clear_prompt_share();
  options.set_recent_tokens(384);
  EXPECT_EQ(prompt_share(), 0.25F) << "what the recent tokens leave";
  options.mutable_policy()->mutable_snap_kv();
  EXPECT_EQ(prompt_share(), 0);
}

TEST(CacheShares, TheDefaultFitsEveryBudget) {
  for (uint32_t budget = 32; budget <= 320; budget += 16) {
    for (uint32_t recent = 0; recent + 16 <= budget; recent += 16) {
      v1::CacheOptions options = QueryDiff(budget);
      options.set_recent_tokens(recent);
      for (const auto schedule : {v1::BUDGET_SCHEDULE_UNIFORM, v1::BUDGET_SCHEDULE_PYRAMID}) {
        options.set_budget_schedule(schedule);
        const auto config = CacheConfigFromProto(options, kOptionRules, kRequest);
        ASSERT_TRUE(config.ok()) << config.status();
        const absl::Status valid =
            policy::Validate(*config, kOptionRules.page_tokens, kOptionRules.num_layers);
        EXPECT_TRUE(valid.ok()) << budget << ", " << recent << ": " << valid;
      }
    }
  }
}

TEST(CacheRefusals, NameTheFieldAndTheFix) {
  CacheRules capped = kOptionRules;
  capped.budgets.ceiling = TokenCount(640);
  struct Case {
    std::string name;
    CacheRules rules;
    v1::CacheOptions options;
    std::vector<std::string> words;
  };
  std::vector<Case> cases;
  const auto add = [&](std::string name, const CacheRules& rules, std::vector<std::string> words,
                       auto&& change) {
    v1::CacheOptions options = Paged();
    options.set_budget_tokens(512);
    change(options);
    cases.push_back({std::move(name), rules, options, std::move(words)});
  };
  add("above the ceiling", capped, {"budget_tokens 656", "ceiling of 640", "lower it"},
      [](auto& o) { o.set_budget_tokens(656); });
  add("full above the ceiling", capped, {"policy full", "1050 tokens", "640"}, [](auto& o) {
    o.mutable_policy()->mutable_full();
    o.clear_budget_tokens();
  });
  add("a share above one", kOptionRules, {"budget_share 1.5", "at most 1"}, [](auto& o) {
    o.clear_budget_tokens();
    o.set_budget_share(1.5F);
  });
  add("a share below zero", kOptionRules, {"budget_share -0.5", "above 0"},
      [](auto& o) { o.set_budget_share(-0.5F); });
  add("two budgets", kOptionRules, {"budget_tokens, budget_share", "give one"},
      [](auto& o) { o.set_budget_share(0.5F); });
  add("a share with full", kOptionRules, {"policy full", "leave it out"}, [](auto& o) {
    o.mutable_policy()->mutable_full();
    o.clear_budget_tokens();
    o.set_budget_share(0.5F);
  });
  add("a schedule beside a list", kOptionRules, {"budget_schedule", "layer_budget_tokens"},
      [](auto& o) {
        o.clear_budget_tokens();
        for (int i = 0; i < 3; ++i) o.add_layer_budget_tokens(64);
        o.set_budget_schedule(v1::BUDGET_SCHEDULE_PYRAMID);
      });
  add("an unknown schedule", kOptionRules, {"cache.budget_schedule", "unknown value 9"},
      [](auto& o) { o.set_budget_schedule(static_cast<v1::BudgetSchedule>(9)); });
  add("a window of nothing", kOptionRules, {"snap_kv.window 0"},
      [](auto& o) { o.mutable_policy()->mutable_snap_kv()->set_window(0); });
  add("a share of all", kOptionRules, {"kv_crush.share 1", "below 1"},
      [](auto& o) { o.mutable_policy()->mutable_kv_crush()->set_share(1); });
  add("an unknown anchor", kOptionRules, {"kv_crush.anchor", "unknown value 17"}, [](auto& o) {
    o.mutable_policy()->mutable_kv_crush()->set_anchor(static_cast<v1::CrushAnchor>(17));
  });
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const absl::Status refused = CacheConfigFromProto(c.options, c.rules, kRequest).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    for (const std::string& words : c.words) {
      EXPECT_THAT(std::string(refused.message()), HasSubstr(words));
    }
  }
}

}  // namespace
}  // namespace folio::manager
