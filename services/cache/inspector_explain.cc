// Inspector::Explain: a dry run of an eviction.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/decision_view.h"
#include "services/cache/inspector.h"

namespace folio::cache {
namespace {

// Copies the rows that `input` points at, so that the sequence may change while a policy reads
// them.
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

// The pages that were read are still in their places.
bool SamePages(const std::vector<LayerTableInfo>& before,
               const std::vector<LayerTableInfo>& after) {
  return std::equal(before.begin(), before.end(), after.begin(), after.end(),
                    [](const LayerTableInfo& x, const LayerTableInfo& y) {
                      return x.pages.size() <= y.pages.size() &&
                             std::equal(x.pages.begin(), x.pages.end(), y.pages.begin());
                    });
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

absl::StatusOr<Explanation> Inspector::Explain(
    SequenceId id, const std::optional<policy::CacheConfig>& cache) const {
  if (cache.has_value()) {
    const CacheGeometry& geometry = coordinator_.options_.geometry;
    absl::Status valid = policy::Validate(*cache, geometry.page_tokens, geometry.num_layers);
    if (!valid.ok()) return valid;
  }
  // Scores are copied without the lock. The copy is good if no plan was made and no page moved
  // meanwhile.
  constexpr int kAttempts = 5;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    absl::StatusOr<DryRunInput> before = DryRun(id, cache);
    if (!before.ok()) return before.status();
    const std::vector<std::vector<float>> copies = CopyScores(before->input);
    const absl::StatusOr<SequenceDetail> after = sequence(id);
    if (!after.ok()) return after.status();
    if (after->info.plan_epoch != before->plan_epoch || !SamePages(before->layers, after->layers)) {
      continue;
    }
    Explanation explanation;
    explanation.cache = before->cache;
    for (size_t layer = 0; layer < before->layers.size(); ++layer) {
      explanation.layers.push_back(
          ExplainLayer(before->input, layer, before->layers[layer], &explanation.due));
    }
    return explanation;
  }
  return absl::UnavailableError(
      absl::StrCat("sequence ", id.value(), " is being evicted from; ask again"));
}

}  // namespace folio::cache
