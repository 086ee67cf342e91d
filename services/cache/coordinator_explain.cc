// A dry run of an eviction.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/coordinator_state.h"

namespace folio::cache {
namespace {

// Copies the rows that `input` points at, so that nobody need hold still while a policy reads them.
std::vector<std::vector<float>> CopyScores(DecisionInput& input) {
  const size_t page_scores = size_t{input.page_tokens} * input.kv_heads;
  std::vector<std::vector<float>> copies;
  for (DecisionInput::Layer& layer : input.layers) {
    std::vector<float>& copy = copies.emplace_back(layer.pages.size() * page_scores);
    for (size_t block = 0; block < layer.pages.size(); ++block) {
      float* to = &copy[block * page_scores];
      std::memcpy(to, layer.pages[block], page_scores * sizeof(float));
      layer.pages[block] = to;
    }
  }
  return copies;
}

std::vector<PositionRange> DroppedPositions(const std::vector<PositionRange>& resident,
                                            const std::vector<SlotIndex>& keep) {
  std::vector<PositionRange> dropped;
  uint32_t slot = 0;
  auto kept = keep.begin();
  for (const PositionRange& run : resident) {
    for (Position at = run.begin; at < run.end; ++at, ++slot) {
      if (kept != keep.end() && kept->value() == slot) {
        ++kept;
      } else if (!dropped.empty() && dropped.back().end == at) {
        ++dropped.back().end;
      } else {
        dropped.push_back({at, at + Position(1)});
      }
    }
  }
  return dropped;
}

ExplainedLayer ExplainLayer(const DecisionInput& input, size_t at, const LayerTableInfo& table) {
  const policy::Limits& limits = input.layers[at].limits;
  policy::LayerScores scores = input.Scores(at);
  const uint32_t blocks = scores.tokens.value() / input.page_tokens;
  ExplainedLayer layer;
  layer.budget = limits.budget;
  layer.resident = scores.tokens;
  if (!input.policy->evicts()) return layer;
  if (blocks * input.page_tokens > limits.budget.value() + input.page_tokens) {
    layer.scores = input.policy->TokenScores(scores);
    layer.drop = DroppedPositions(table.kept, input.policy->SelectPrefill(scores, limits));
    return layer;
  }
  scores.tokens = TokenCount(blocks * input.page_tokens);
  scores.prompt_tokens = std::min(scores.prompt_tokens, scores.tokens);
  layer.scores = input.policy->BlockScores(scores);
  if (uint64_t{limits.sink.value()} + limits.recent.value() < scores.tokens.value()) {
    layer.block = input.policy->SelectDecode(scores, limits);
  }
  return layer;
}

bool SamePages(const std::vector<LayerTableInfo>& a, const std::vector<LayerTableInfo>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.pages.size() <= y.pages.size() &&
           std::equal(x.pages.begin(), x.pages.end(), y.pages.begin());
  });
}

}  // namespace

absl::StatusOr<Coordinator::State::Imagined> Coordinator::State::Imagine(
    SequenceId id, const std::optional<policy::CacheConfig>& cache) const {
  absl::MutexLock lock(&mu_);
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) {
    return absl::NotFoundError(absl::StrCat("sequence ", id.value(), " is not open"));
  }
  const Sequence& sequence = *it->second;
  Imagined imagined;
  imagined.cache = cache.value_or(sequence.cache());
  auto input = sequence.Imagine(imagined.cache, options_.score_board);
  if (!input.ok()) return input.status();
  imagined.input = *std::move(input);
  imagined.plan_epoch = sequence.last_plan();
  imagined.tables = sequence.Layers();
  return imagined;
}

absl::StatusOr<Explanation> Coordinator::State::Explain(
    SequenceId id, const std::optional<policy::CacheConfig>& cache) const {
  if (cache.has_value()) {
    absl::Status valid =
        policy::Validate(*cache, options_.geometry.page_tokens, options_.geometry.num_layers);
    if (!valid.ok()) return valid;
  }
  // Scores are copied without the lock, and hold if no page was given away or gathered meanwhile.
  constexpr int kAttempts = 5;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    absl::StatusOr<Imagined> before = Imagine(id, cache);
    if (!before.ok()) return before.status();
    const std::vector<std::vector<float>> copies = CopyScores(before->input);
    const absl::StatusOr<Imagined> after = Imagine(id, cache);
    if (!after.ok()) return after.status();
    if (after->plan_epoch != before->plan_epoch || !SamePages(before->tables, after->tables)) {
      continue;
    }
    Explanation explanation;
    explanation.cache = before->cache;
    for (size_t layer = 0; layer < before->tables.size(); ++layer) {
      explanation.layers.push_back(ExplainLayer(before->input, layer, before->tables[layer]));
      const ExplainedLayer& explained = explanation.layers.back();
      const uint32_t page_tokens = options_.geometry.page_tokens;
      explanation.due |=
          before->input.policy->evicts() &&
          explained.resident.value() / page_tokens * page_tokens > explained.budget.value();
    }
    return explanation;
  }
  return absl::UnavailableError(
      absl::StrCat("sequence ", id.value(), " is being evicted from; ask again"));
}

}  // namespace folio::cache
