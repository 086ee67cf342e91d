#include "tests/model/oracle_sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"
#include "services/policy/registry.h"

namespace folio::model::testing {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kPageTokens = 16;  // also LayerScores' own

policy::PolicySpec SpecNamed(const std::string& name) {
  if (name == "paged_eviction") return policy::PagedEvictionSpec{};
  if (name == "streaming_llm") return policy::StreamingLlmSpec{};
  FOLIO_CHECK(name == "full");
  return policy::FullSpec{};
}

void ExpectKept(const ManagedSequence& sequence, const Json& oracle, const Tolerance& tolerance) {
  for (const auto& [layer, positions] : oracle["kept"].items()) {
    const auto& kept = sequence.kept().at(std::stoul(layer));
    const std::set<uint32_t> want = positions.get<std::set<uint32_t>>();
    ASSERT_EQ(kept.size(), want.size());
    size_t same = 0;
    for (const TokenSlot slot : kept) same += want.count(slot.value());
    std::cout << "layer " << layer << " keeps " << same << " of the same " << want.size() << "\n";
    EXPECT_GE(double(same), tolerance.kept * double(want.size())) << "layer " << layer;
  }
}

void ExpectDrops(const ManagedSequence& sequence, const Json& oracle) {
  const Json& drops = oracle["drops"];
  ASSERT_EQ(sequence.drops().size(), drops.size());
  size_t same = 0, all = 0;
  for (size_t i = 0; i < drops.size(); ++i) {
    for (size_t l = 0; l < drops[i][1].size(); ++l, ++all) {
      same += drops[i][1][l].get<uint32_t>() == sequence.drops()[i][l].value();
    }
  }
  std::cout << "same page dropped " << same << " of " << all << " times\n";
  if (oracle["policy"] == "streaming_llm") {
    EXPECT_EQ(same, all);
  }
}

}  // namespace

void PrintTo(const OracleCase& one, std::ostream* out) { *out << one.name; }

std::vector<OracleCase> OracleCases(const std::string& path) {
  std::ifstream file(path);
  FOLIO_CHECK(file.good());
  std::vector<OracleCase> cases;
  for (const Json& one : Json::parse(file)) {
    const auto policy = one["policy"].get<std::string>();
    if (!one["kv_crush"].is_null()) continue;
    if (policy == "inverse_key_norm" || policy == "key_diff") continue;
    std::string name = absl::StrCat(one["name"].get<std::string>(), "_", policy);
    if (!one["budget"].is_null()) absl::StrAppend(&name, "_", one["budget"].get<uint32_t>());
    cases.push_back({name, one});
  }
  FOLIO_CHECK(!cases.empty());
  return cases;
}

ManagedSequence::ManagedSequence(Executor& executor, TestPool& pool, const kernels::PoolView& board,
                                 const Json& one)
    : executor_(executor),
      pool_(pool),
      board_(board),
      policy_(policy::MakePolicy(SpecNamed(one["policy"]))) {
  if (policy_->traits().evicts) {
    limits_ = {TokenCount(one["budget"].get<uint32_t>()), TokenCount(kPageTokens),
               TokenCount(kPageTokens)};
  }
  slot_ =
      executor_.tables().Acquire(policy_->traits().needs_scores() ? kernels::ScoreKind::kNormRatio
                                                                  : kernels::ScoreKind::kNone);
  tables_.resize(board_.geometry.num_layers);
}

SegmentOutput ManagedSequence::Prefill(const std::vector<uint32_t>& prompt,
                                       std::optional<TokenId> target) {
  const uint32_t chunk = std::min(kChunk, executor_.max_rows());
  Extend(board_.geometry.pages_for(prompt.size()) + 1);
  SegmentOutput output;
  for (uint32_t first = 0; first < prompt.size(); first += chunk) {
    const uint32_t end = std::min<uint32_t>(prompt.size(), first + chunk);
    StepSegment segment;
    segment.prompt = true;
    for (uint32_t i = first; i < end; ++i) segment.tokens.emplace_back(prompt[i]);
    segment.want_output = end == prompt.size();
    if (segment.want_output) segment.target = target;
    output = Run(segment, first);
  }
  position_ = prompt.size();
  if (policy_->traits().evicts && position_ > limits_.budget.value()) Compact();
  return output;
}

SegmentOutput ManagedSequence::Feed(std::optional<TokenId> token, std::optional<TokenId> target) {
  if (executor_.tables().at(slot_).free_tokens() == 0) Extend(1);
  StepSegment segment;
  if (token.has_value()) segment.tokens = {*token};
  segment.want_output = true;
  segment.target = target;
  SegmentOutput output = Run(segment, position_++);
  if (policy_->traits().evicts && resident() % kPageTokens == 0 &&
      resident() > limits_.budget.value()) {
    Drop();
  }
  return output;
}

SegmentOutput ManagedSequence::Run(StepSegment& segment, uint32_t position) {
  segment.slot = slot_;
  segment.first_position = Position(position);
  segment.top_logprobs = 0;
  StepOutput output = executor_.Collect(executor_.Enqueue(StepBatch{{segment}}));
  FOLIO_CHECK(output.status.ok());
  return output.outputs.empty() ? SegmentOutput{} : output.outputs[0];
}

void ManagedSequence::Extend(uint32_t count) {
  auto pages = pool_.Take(count);
  for (size_t l = 0; l < pages.size(); ++l) {
    tables_[l].insert(tables_[l].end(), pages[l].begin(), pages[l].end());
  }
  executor_.tables().Extend(slot_, pages);
}

policy::LayerScores ManagedSequence::Scores(uint32_t layer, std::vector<const float*>& pages) {
  pages.clear();
  for (const PageRef& ref : tables_[layer]) pages.push_back(board_.page_scores(ref.page.value()));
  const TokenCount tokens(resident());
  const uint32_t heads = board_.geometry.num_kv_heads;
  return {.pages = pages, .kv_heads = heads, .tokens = tokens, .scored = tokens};
}

void ManagedSequence::Compact() {
  std::vector<const float*> pages;
  for (uint32_t l = 0; l < tables_.size(); ++l) {
    kept_.push_back(policy_->SelectPrefill(Scores(l, pages), limits_));
  }
  executor_.Compact(slot_, {kept_, std::vector<PageCount>(kept_.size(), PageCount(1))});
  for (auto& table : tables_) table.resize(limits_.budget.value() / kPageTokens + 1);
}

void ManagedSequence::Drop() {
  std::vector<const float*> pages;
  std::vector<BlockIndex> blocks;
  for (uint32_t l = 0; l < tables_.size(); ++l) {
    // Only blocks with tokens are the policy's business.
    policy::LayerScores scores = Scores(l, pages);
    scores.pages = scores.pages.subspan(0, resident() / kPageTokens);
    blocks.push_back(policy_->SelectDecode(scores, limits_));
    tables_[l].erase(tables_[l].begin() + blocks.back().value());
  }
  executor_.tables().DropBlocks(slot_, {{blocks.begin(), blocks.end()}});
  drops_.push_back(blocks);
}

void ExpectLogprobs(ManagedSequence& sequence, const Json& oracle, const Tolerance& t,
                    size_t most) {
  const auto tokens = oracle["tokens"].get<std::vector<uint32_t>>();
  const auto want = oracle["logprobs"].get<std::vector<double>>();
  const size_t count = std::min(most, tokens.size());
  std::vector<double> differences;
  for (size_t i = 0; i < count; ++i) {
    const SegmentOutput output = i == 0 ? sequence.Prefill(oracle["prompt_ids"], TokenId(tokens[0]))
                                        : sequence.Feed(TokenId(tokens[i - 1]), TokenId(tokens[i]));
    ASSERT_EQ(output.token.value(), tokens[i]);
    differences.push_back(std::abs(output.logprob - want[i]));
  }
  const double worst = *std::max_element(differences.begin(), differences.end());
  const double mean =
      std::accumulate(differences.begin(), differences.end(), 0.0) / double(differences.size());
  const bool full = oracle["policy"] == "full";
  EXPECT_LE(worst, full ? t.full_worst : t.evicted_worst);
  EXPECT_LE(mean, full ? t.full_mean : t.evicted_mean);
  std::cout << "log-probabilities differ by " << mean << " on average, " << worst << " at worst\n";
  ExpectKept(sequence, oracle, t);
  if (count < tokens.size()) return;
  EXPECT_EQ(sequence.resident(), oracle["resident"].get<uint32_t>());
  ExpectDrops(sequence, oracle);
}

void ExpectGreedyTokens(ManagedSequence& sequence, const Json& oracle, const Tolerance& tolerance,
                        size_t most) {
  const auto tokens = oracle["tokens"].get<std::vector<uint32_t>>();
  const auto gaps = oracle["top2_gap"].get<std::vector<double>>();
  const size_t count = std::min(most, tokens.size());
  for (size_t i = 0; i < count && gaps[i] >= tolerance.tie; ++i) {
    const SegmentOutput output = i == 0 ? sequence.Prefill(oracle["prompt_ids"], std::nullopt)
                                        : sequence.Feed(std::nullopt, std::nullopt);
    ASSERT_EQ(output.token.value(), tokens[i]) << "token " << i;
  }
}

}  // namespace folio::model::testing
