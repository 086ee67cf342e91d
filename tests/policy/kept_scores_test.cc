// Scores kept between decisions change no decision.
#include "services/policy/kept_scores.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "services/policy/registry.h"
#include "tests/policy/score_table.h"

namespace folio::policy {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Many or few equal keys, near and far apart, searched from where the last search ended.
TEST(FindHighest, AgreesWithASortWhereverItBegins) {
  std::mt19937 random(20);
  SearchGuess guess;
  for (int round = 0; round < 3000; ++round) {
    const uint32_t count = 1 + random() % 120;
    const uint32_t kind = random() % 4;
    std::vector<int32_t> keys(count);
    for (int32_t& key : keys) {
      const float value = static_cast<float>(random() % 1000) * (kind == 0 ? 1e30F : 1e-3F);
      key = kind == 1   ? SortKey(static_cast<float>(random() % 3) - 1)
            : kind == 2 ? SortKey(random() % 2 == 0 ? -kInf : value)
                        : SortKey(value);
    }
    const uint32_t wanted = random() % (count + 1);
    if (random() % 10 == 0) guess = {};
    const Highest highest = FindHighest(keys, wanted, guess);
    std::vector<std::pair<int32_t, uint32_t>> order;
    for (uint32_t i = 0; i < count; ++i) order.emplace_back(keys[i], i);
    std::sort(order.rbegin(), order.rend());
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(highest.Holds(order[i].first, order[i].second), i < wanted)
          << "round " << round << ", " << wanted << " of " << count;
    }
  }
}

TEST(SortKey, IsOrderedAsScoresAre) {
  const std::vector<float> ascending = {-kInf,  -3e38F, -1.0F, -1e-40F, 0.0F,
                                        1e-40F, 1.0F,   3e38F, kInf};
  for (size_t i = 1; i < ascending.size(); ++i) {
    EXPECT_LT(SortKey(ascending[i - 1]), SortKey(ascending[i])) << i;
  }
  EXPECT_EQ(SortKey(-0.0F), SortKey(0.0F));
  EXPECT_EQ(SortKey(NAN), SortKey(-kInf));
  EXPECT_EQ(SortKey(-NAN), SortKey(-kInf));
}

// One layer of a sequence in decode, and its score board.
class Layer {
 public:
  Layer(uint32_t page_tokens, uint32_t kv_heads, uint32_t prompt, uint64_t seed)
      : page_tokens_(page_tokens), kv_heads_(kv_heads), random_(seed), prompt_(prompt) {
    while (pages_.size() * page_tokens_ < prompt) Fill();
  }

  void Fill() {
    auto& page = pages_.emplace_back(std::make_unique<std::vector<float>>());
    page->resize(size_t{page_tokens_} * kv_heads_);
    Rewrite(*page);
  }
  void Drop(uint32_t block) {
    prompt_ -=
        std::min(page_tokens_, std::max(prompt_, block * page_tokens_) - block * page_tokens_);
    pages_.erase(pages_.begin() + block);
  }
  void RewriteAll() {
    for (const auto& page : pages_) Rewrite(*page);
  }

  uint32_t blocks() const { return static_cast<uint32_t>(pages_.size()); }
  uint32_t Pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  // `prompt_only`: scores are written at the prompt's end.
  LayerScores view(bool prompt_only) {
    rows_.clear();
    for (const auto& page : pages_) rows_.push_back(page->data());
    const uint32_t tokens = blocks() * page_tokens_;
    return {.pages = rows_,
            .page_tokens = page_tokens_,
            .kv_heads = kv_heads_,
            .tokens = TokenCount(tokens),
            .scored = TokenCount(prompt_only ? std::min(prompt_, tokens) : tokens)};
  }

 private:
  void Rewrite(std::vector<float>& page) {
    const bool coarse = Pick(2) == 0;
    for (float& score : page) {
      const auto value = static_cast<float>(coarse ? Pick(5) : Pick(100000)) * 0.37F;
      const uint32_t kind = Pick(60);
      score = kind == 0 ? NAN : kind == 1 ? kInf : kind == 2 ? -kInf : value;
    }
  }

  const uint32_t page_tokens_;
  const uint32_t kv_heads_;
  std::mt19937_64 random_;
  uint32_t prompt_;
  std::vector<std::unique_ptr<std::vector<float>>> pages_;
  std::vector<const float*> rows_;
};

const std::map<std::string, PolicySpec> kSpecs = {
    {"paged_eviction", PagedEvictionSpec()},
    {"inverse_key_norm", InverseKeyNormSpec()},
    {"value_norm", ValueNormSpec()},
    {"key_diff", KeyDiffSpec()},
    {"snap_kv", SnapKvSpec{1}},
    {"crush", KvCrushSpec{}},
    {"crush_alternating",
     KvCrushSpec{.options = {.share = 0.5F, .anchor = CrushAnchor::kAlternating}}},
    {"crush_random", KvCrushSpec{.options = {.share = 0.6F, .anchor = CrushAnchor::kRandom}}},
    {"crush_prefill_only", KvCrushSpec{.options = {.prefill_only = true}}},
    {"crush_key_diff", KvCrushSpec{.base = KeyDiffSpec(), .options = {.share = 0.4F}}},
    {"crush_snap_kv", KvCrushSpec{.base = SnapKvSpec{1}, .options = {.share = 0.3F}}}};

class KeptScoresOf : public ::testing::TestWithParam<std::pair<const std::string, PolicySpec>> {
 protected:
  const std::shared_ptr<const Policy> policy_ = MakePolicy(GetParam().second);
  const bool prompt_only_ = policy_->traits().scores.time == ScoreTime::kPromptEnd;
};

// A long decode: blocks fill by one or more at a time, the chosen block or another goes, now and
// then everything moves. A decision with kept scores is the same as one from all rows.
TEST_P(KeptScoresOf, DecideAsFromScratch) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const uint32_t page = 1 + seed % 5;
    Layer layer(page, 1 + seed % 3, page * 9 + seed % page, seed);
    const Limits limits = MakeLimits(8 * page, page * (seed % 3), page * (seed / 3 % 3));
    KeptScores kept;
    for (int round = 0; round < 120; ++round) {
      for (uint32_t more = 1 + layer.Pick(3); more > 0; --more) layer.Fill();
      if (policy_->traits().scores.time == ScoreTime::kDecision) layer.RewriteAll();
      if (layer.Pick(30) == 0) {
        layer.RewriteAll();
        kept.Clear();
      }
      const LayerScores seen = layer.view(prompt_only_);
      kept.Update(*policy_, seen);
      const std::vector<float> blocks = policy_->BlockScores(seen);
      ASSERT_EQ(kept.block_scores(), absl::MakeConstSpan(blocks)) << "seed " << seed;
      const BlockIndex chosen = policy_->SelectDecode(seen, limits);
      ASSERT_EQ(policy_->SelectDecode({&seen, 1}, limits, {&kept, 1}), chosen)
          << "seed " << seed << " round " << round;
      while (layer.blocks() > 8) {
        const uint32_t gone = layer.Pick(3) == 0 ? layer.Pick(layer.blocks()) : chosen.value();
        layer.Drop(std::min(gone, layer.blocks() - 1));
        kept.Drop(BlockIndex(std::min(gone, layer.blocks())));
      }
    }
  }
}

// That is what it is for: the older blocks' rows are not looked at again.
TEST_P(KeptScoresOf, ReadsOnlyWhatFilled) {
  Layer layer(4, 2, 40, 7);
  const Limits limits = MakeLimits(36, 4, 4);
  KeptScores kept;
  const LayerScores before = layer.view(prompt_only_);
  kept.Update(*policy_, before);
  const std::vector<float> old(kept.block_scores().begin(), kept.block_scores().end());
  layer.Fill();
  LayerScores after = layer.view(prompt_only_);
  const BlockIndex chosen = policy_->SelectDecode(after, limits);
  const bool once = WrittenOnce(policy_->traits().scores.time);
  std::vector<const float*> pages(after.pages.begin(), after.pages.end());
  if (once) std::fill(pages.begin(), pages.end() - 1, nullptr);
  after.pages = pages;
  kept.Update(*policy_, after);
  EXPECT_EQ(kept.block_scores().subspan(0, old.size()), absl::MakeConstSpan(old));
  EXPECT_EQ(policy_->SelectDecode({&after, 1}, limits, {&kept, 1}), chosen);
}

INSTANTIATE_TEST_SUITE_P(Policies, KeptScoresOf, ::testing::ValuesIn(kSpecs),
                         [](const auto& param) { return param.param.first; });

}  // namespace
}  // namespace folio::policy
