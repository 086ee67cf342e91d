// Inspector::Explain: a dry run of an eviction.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/decision_view.h"
#include "services/cache/inspector.h"

namespace folio::cache {
namespace {

// Copies the rows that the layer points at, so that the sequence may change while a policy reads
// them. `copy` is theirs, and lives as long as they are read.
void CopyScores(DecisionInput::Layer& layer, size_t page_scores, std::vector<float>& copy) {
  copy.resize(layer.pages.size() * page_scores);
  for (size_t block = 0; block < layer.pages.size(); ++block) {
    float* to = &copy[block * page_scores];
    std::memcpy(to, layer.pages[block], page_scores * sizeof(float));
    layer.pages[block] = to;
  }
}

std::vector<PositionRange> DroppedPositions(const std::vector<PositionRange>& resident,
                                            const std::vector<TokenSlot>& keep) {
  std::vector<PositionRange> dropped;
  uint32_t slot = 0;
  auto kept = keep.begin();
  for (const PositionRange& run : resident) {
    for (Position position = run.begin; position < run.end; ++position, ++slot) {
      if (kept != keep.end() && kept->value() == slot) {
        ++kept;
      } else if (!dropped.empty() && dropped.back().end == position) {
        ++dropped.back().end;
      } else {
        dropped.push_back({position, position + Position(1)});
      }
    }
  }
  return dropped;
}

// Sets `due` if the layer is over its budget.
ExplainedLayer ExplainLayer(const DecisionInput& input, size_t index, const LayerTableInfo& table,
                            bool* due) {
  const policy::Limits& limits = input.layers[index].limits;
  policy::LayerScores scores = input.Scores(index);
  const uint32_t full = scores.tokens.value() / input.page_tokens * input.page_tokens;
  ExplainedLayer layer;
  layer.budget = limits.budget;
  layer.resident = scores.tokens;
  if (!input.policy->traits().evicts) return layer;
  *due = *due || full > limits.budget.value();
  if (full > limits.budget.value() + input.page_tokens) {
    layer.scores = input.policy->TokenScores(scores);
    layer.drop = DroppedPositions(table.kept, input.policy->SelectPrefill(scores, limits));
    return layer;
  }
  scores.tokens = TokenCount(full);
  scores.scored = std::min(scores.scored, scores.tokens);
  layer.scores = input.policy->BlockScores(scores);
  if (uint64_t{limits.sink.value()} + limits.recent.value() < scores.tokens.value()) {
    layer.block = input.policy->SelectDecode(scores, limits);
  }
  return layer;
}

}  // namespace

absl::StatusOr<Inspector::DryRunInput> Inspector::DryRun(
    SequenceId id, const std::optional<policy::CacheConfig>& cache) const {
  const Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  const absl::StatusOr<Sequence*> found = c.Find(id);
  if (!found.ok()) return found.status();
  const SequenceRecord& record = (*found)->record();
  const policy::CacheConfig settings = cache.value_or(record.cache);
  const ScoreBoard board = c.board();
  auto input = DecisionView(record, board).DryRun(settings);
  if (!input.ok()) return input.status();
  return DryRunInput{*std::move(input), settings, record.last_plan, DescribeLayers(record)};
}

absl::StatusOr<bool> Inspector::StillThere(const DryRunInput& seen, size_t layer) const {
  const Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  const absl::StatusOr<Sequence*> found = c.Find(seen.input.sequence);
  if (!found.ok()) return found.status();
  const SequenceRecord& record = (*found)->record();
  const PageList& before = seen.layers[layer].pages;
  const PageList& now = record.layers[layer].pages();
  return record.last_plan == seen.plan_epoch && before.size() <= now.size() &&
         std::equal(before.begin(), before.end(), now.begin());
}

absl::StatusOr<Explanation> Inspector::Explain(
    SequenceId id, const std::optional<policy::CacheConfig>& cache) const {
  if (cache.has_value()) {
    const CacheGeometry& geometry = coordinator_.options_.geometry;
    absl::Status valid = policy::Validate(*cache, geometry.page_tokens, geometry.num_layers);
    if (!valid.ok()) return valid;
  }
  constexpr int kAttempts = 5;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    absl::StatusOr<DryRunInput> seen = DryRun(id, cache);
    if (!seen.ok()) return seen.status();
    Explanation explanation;
    explanation.cache = seen->cache;
    // Scores are copied without the lock, and one layer at a time, because those of a long sequence
    // may be hundreds of MB. A copy is good if no plan was made and no page moved meanwhile.
    std::vector<float> copy;
    const size_t layers = seen->layers.size();
    while (explanation.layers.size() < layers) {
      const size_t layer = explanation.layers.size();
      CopyScores(seen->input.layers[layer], coordinator_.options_.geometry.scores_per_page(), copy);
      const absl::StatusOr<bool> good = StillThere(*seen, layer);
      if (!good.ok()) return good.status();
      if (!*good) break;
      explanation.layers.push_back(
          ExplainLayer(seen->input, layer, seen->layers[layer], &explanation.due));
    }
    if (explanation.layers.size() == layers) return explanation;
  }
  return absl::UnavailableError(
      absl::StrCat("sequence ", id.value(), " is being evicted from; ask again"));
}

}  // namespace folio::cache
