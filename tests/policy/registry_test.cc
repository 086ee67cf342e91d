#include "services/policy/registry.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/policy/cache_config.h"

namespace folio::policy {
namespace {

using ::testing::HasSubstr;

// Settings as a client gives them, of which nothing is checked yet.
struct Settings {
  PolicySpec policy;
  uint32_t budget, sink, recent;
  std::vector<uint32_t> layer_budgets = {};
  Layers layers = Layers::kPerLayer;
};

Settings Config(PolicySpec policy, uint32_t budget, uint32_t sink, uint32_t recent) {
  return {policy, budget, sink, recent};
}

Settings PerLayer(const std::vector<uint32_t>& budgets) {
  return {PagedEvictionSpec(), 0, 16, 16, budgets};
}

// Checks the parameters, then the rest, as Open does with a request.
absl::Status Validate(const Settings& settings, uint32_t page_tokens, uint32_t num_layers) {
  auto policy = ChosenPolicy::Make(settings.policy);
  if (!policy.ok()) return policy.status();
  CacheConfig config;
  config.policy = *policy;
  config.budget = TokenCount(settings.budget);
  config.sink = TokenCount(settings.sink);
  config.recent = TokenCount(settings.recent);
  config.layers = settings.layers;
  for (const uint32_t budget : settings.layer_budgets) config.layer_budgets.emplace_back(budget);
  return Validate(config, page_tokens, num_layers);
}

TEST(Validate, AcceptsWhatFits) {
  EXPECT_TRUE(Validate(Config(FullSpec(), 0, 16, 16), 16, 2).ok());
  EXPECT_TRUE(Validate(Config(FullSpec(), 0, 0, 0), 16, 2).ok());
  EXPECT_TRUE(Validate(Config(PagedEvictionSpec(), 32, 16, 16), 16, 2).ok());
  EXPECT_TRUE(Validate(Config(PagedEvictionSpec(), 1024, 16, 16), 16, 2).ok());
  EXPECT_TRUE(Validate(Config(StreamingLlmSpec(), 16, 0, 0), 16, 2).ok());
  EXPECT_TRUE(Validate(Config(StreamingLlmSpec(), 96, 32, 64), 32, 2).ok());
}

TEST(Validate, LayersThatDecideTogetherNeedOneBudgetAndAPolicyThatEvicts) {
  Settings shared = Config(PagedEvictionSpec(), 64, 16, 16);
  shared.layers = Layers::kShared;
  EXPECT_EQ(Validate(shared, 16, 2), absl::OkStatus());
  shared.layer_budgets = {64, 64};
  EXPECT_THAT(std::string(Validate(shared, 16, 2).message()),
              HasSubstr("layers shared needs one budget for all layers"));
  Settings full = Config(FullSpec(), 0, 0, 0);
  full.layers = Layers::kShared;
  EXPECT_THAT(std::string(Validate(full, 16, 2).message()),
              HasSubstr("layers shared does not go with policy full"));
}

struct Refusal {
  const char* name;
  Settings config;
  std::vector<std::string> words;
};

class ValidateRefuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(ValidateRefuses, NamingTheFieldAndTheFix) {
  const absl::Status status = Validate(GetParam().config, 16, 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const std::string& words : GetParam().words) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }
}

constexpr uint32_t kMax = std::numeric_limits<uint32_t>::max();

INSTANTIATE_TEST_SUITE_P(
    Table, ValidateRefuses,
    ::testing::Values(
        Refusal{"BudgetMissing",
                Config(PagedEvictionSpec(), 0, 16, 16),
                {"budget_tokens is missing", "paged_eviction", "multiple of 16", "at least 32"}},
        Refusal{"BudgetMissingNothingProtected",
                Config(StreamingLlmSpec(), 0, 0, 0),
                {"budget_tokens is missing", "streaming_llm", "at least 16"}},
        Refusal{"BudgetNoMultiple",
                Config(PagedEvictionSpec(), 100, 16, 16),
                {"budget_tokens 100", "page size 16", "96 or 112"}},
        Refusal{
            "BudgetBelowPage", Config(StreamingLlmSpec(), 5, 0, 0), {"budget_tokens 5", "0 or 16"}},
        Refusal{"BudgetWithFull",
                Config(FullSpec(), 64, 16, 16),
                {"budget_tokens 64", "full", "leave budget_tokens out"}},
        Refusal{"SinkNoMultiple",
                Config(PagedEvictionSpec(), 64, 10, 16),
                {"sink_tokens 10", "0 or 16"}},
        Refusal{"SinkNoMultipleWithFull", Config(FullSpec(), 0, 10, 16), {"sink_tokens 10"}},
        Refusal{"RecentNoMultiple",
                Config(StreamingLlmSpec(), 64, 16, 33),
                {"recent_tokens 33", "32 or 48"}},
        Refusal{"RecentHuge",
                Config(StreamingLlmSpec(), 64, 16, kMax),
                {"recent_tokens 4294967295", "4294967280 or 4294967296"}},
        Refusal{"ProtectsMoreThanBudget",
                Config(PagedEvictionSpec(), 64, 48, 32),
                {"sink_tokens 48 + recent_tokens 32 = 80", "budget_tokens 64",
                 "raise budget_tokens to 80"}},
        Refusal{"TooFewLayers",
                PerLayer({64}),
                {"layer_budget_tokens has 1 entries", "2 layers", "one budget for each"}},
        Refusal{"OneLayerTooSmall",
                PerLayer({64, 16}),
                {"layer_budget_tokens[1] 16", "raise layer_budget_tokens[1] to 32"}},
        Refusal{"OneLayerMissing", PerLayer({0, 64}), {"layer_budget_tokens[0] is missing"}},
        Refusal{"WindowOfNothing", Config(SnapKvSpec{0}, 64, 16, 16), {"snap_kv.window 0"}},
        Refusal{"WindowAboveBudget",
                Config(SnapKvSpec{64}, 64, 16, 16),
                {"sink_tokens 16 + window 64 = 80", "budget_tokens 64", "to 80"}},
        Refusal{"ShareOfAll",
                Config(KvCrushSpec{.options = {.share = 1.0F}}, 64, 16, 16),
                {"kv_crush.share 1", "at least 0 and below 1"}},
        Refusal{"ShareNoNumber",
                Config(KvCrushSpec{.options = {.share = std::numeric_limits<float>::quiet_NaN()}},
                       64, 16, 16),
                {"kv_crush.share nan"}},
        Refusal{"EvenPool",
                Config(SnapKvSpec{64, 8}, 128, 16, 16),
                {"snap_kv.pool 8 must be odd, from 1 to 127"}},
        Refusal{"PoolTooWide",
                Config(QueryDiffSpec{{0.5F, 16, 129}}, 128, 16, 16),
                {"query_diff.pool 129", "to 127"}},
        Refusal{"NobodyAsks",
                Config(QueryDiffSpec{{0.5F, 0, 31}}, 128, 16, 16),
                {"query_diff.window 0"}},
        Refusal{"MoreThanAll",
                Config(QueryDiffSpec{{1.5F, 16, 31}}, 128, 16, 16),
                {"query_diff.share 1.5 must be at least 0 and at most 1"}},
        Refusal{"TooManyNeighbours",
                Config(QueryDiffSpec{{.neighbours = 65}}, 128, 16, 16),
                {"query_diff.neighbours 65 must be at most 64"}},
        Refusal{"JudgesAreNone",
                Config(QueryDiffSpec{{.judges = {0.5F, 0.5F}}}, 128, 16, 16),
                {"query_diff.judges_from 0.5 and judges_to 0.5"}},
        Refusal{"WindowDoesNotFit",
                Config(QueryDiffSpec{{0.5F, 64, 31}}, 64, 16, 16),
                {"sink_tokens 16 + window 64 = 80", "to 80"}},
        Refusal{"BaseWindowOfNothing",
                Config(KvCrushSpec{.base = SnapKvSpec{0}}, 64, 16, 16),
                {"snap_kv.window 0"}},
        Refusal{"RepresentativesDoNotFit",
                Config(KvCrushSpec{.options = {.share = 0.75F}}, 64, 16, 16),
                {"sink_tokens 16 + recent_tokens 16 + representatives 48 = 80", "to 128"}},
        Refusal{"RepresentativesNearlyAll",
                Config(KvCrushSpec{.options = {.share = 0.9999999F}}, 64, 16, 16),
                {"representatives 63"}},
        Refusal{"SumOverflows",
                Config(PagedEvictionSpec(), 64, 0x80000000U, 0x80000000U),
                {"= 4294967296"}}),
    [](const auto& info) { return info.param.name; });

TEST(MakePolicy, GivesEachSpecItsPolicy) {
  EXPECT_EQ(MakePolicy(FullSpec())->traits().name, "full");
  EXPECT_EQ(MakePolicy(PagedEvictionSpec())->traits().name, "paged_eviction");
  EXPECT_EQ(MakePolicy(StreamingLlmSpec())->traits().name, "streaming_llm");
  EXPECT_EQ(MakePolicy(InverseKeyNormSpec())->traits().name, "inverse_key_norm");
  EXPECT_EQ(MakePolicy(ValueNormSpec())->traits().name, "value_norm");
  EXPECT_EQ(MakePolicy(KeyDiffSpec())->traits().name, "key_diff");
  EXPECT_EQ(MakePolicy(SnapKvSpec())->traits().name, "snap_kv");
  EXPECT_EQ(MakePolicy(QueryDiffSpec())->traits().name, "query_diff");
  EXPECT_EQ(MakePolicy(RandomSpec())->traits().name, "random");
  EXPECT_EQ(MakePolicy(KvCrushSpec())->traits().name, "kv_crush(paged_eviction)");
  EXPECT_EQ(MakePolicy(KvCrushSpec{.base = KeyDiffSpec()})->traits().name, "kv_crush(key_diff)");
}

TEST(ScoreNeed, IsSaidByThePolicyAndByNoneThatNeedsNone) {
  using Need = ScoreNeed;
  EXPECT_EQ(MakePolicy(FullSpec())->traits().scores, Need{});
  EXPECT_EQ(MakePolicy(StreamingLlmSpec())->traits().scores, Need{});
  EXPECT_EQ(MakePolicy(RandomSpec())->traits().scores, Need{});
  EXPECT_EQ(MakePolicy(PagedEvictionSpec())->traits().scores,
            (Need{ScoreKind::kNormRatio, ScoreTime::kAppend, 0}));
  EXPECT_EQ(MakePolicy(InverseKeyNormSpec())->traits().scores,
            (Need{ScoreKind::kInverseKeyNorm, ScoreTime::kAppend, 0}));
  EXPECT_EQ(MakePolicy(ValueNormSpec())->traits().scores,
            (Need{ScoreKind::kValueNorm, ScoreTime::kAppend, 0}));
  EXPECT_EQ(MakePolicy(KeyDiffSpec())->traits().scores,
            (Need{ScoreKind::kKeyDifference, ScoreTime::kDecision, 0}));
  EXPECT_EQ(MakePolicy(SnapKvSpec{7})->traits().scores,
            (Need{ScoreKind::kWindowAttention, ScoreTime::kPromptEnd, 7, 7}));
  EXPECT_EQ(MakePolicy(SnapKvSpec{7})->traits().prompt_scores, Need{});
  const auto query_diff = MakePolicy(QueryDiffSpec{{0.5F, 9, 5}});
  EXPECT_EQ(query_diff->traits().scores,
            (Need{ScoreKind::kUnrotatedDifference, ScoreTime::kPageFill}));
  EXPECT_EQ(query_diff->traits().prompt_scores,
            (Need{ScoreKind::kWindowAttention, ScoreTime::kPromptEnd, 9, 5}));
  EXPECT_EQ(MakePolicy(KvCrushSpec{.base = SnapKvSpec{7, 3}})->traits().scores,
            (Need{ScoreKind::kWindowAttention, ScoreTime::kPromptEnd, 7, 3}));
}

}  // namespace
}  // namespace folio::policy
