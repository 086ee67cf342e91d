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

// Sets `due` if the layer is over its budget.
ExplainedLayer ExplainLayer(const DecisionInput& input, size_t at, const LayerTableInfo& table,
                            bool* due) {
  const policy::Limits& limits = input.layers[at].limits;
  policy::LayerScores scores = input.Scores(at);
  const uint32_t full = scores.tokens.value() / input.page_tokens * input.page_tokens;
  ExplainedLayer layer;
  layer.budget = limits.budget;
  layer.resident = scores.tokens;
  if (!input.policy->evicts()) return layer;
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

// No plan was made in between, and what was read lies where it lay.
bool SameRows(const SequenceDetail& before, const SequenceDetail& after) {
  return before.info.plan_epoch == after.info.plan_epoch &&
         std::equal(before.layers.begin(), before.layers.end(), after.layers.begin(),
                    after.layers.end(), [](const auto& x, const auto& y) {
                      return x.pages.size() <= y.pages.size() &&
                             std::equal(x.pages.begin(), x.pages.end(), y.pages.begin());
                    });
}

}  // namespace

absl::StatusOr<Coordinator::State::Imagined> Coordinator::State::Imagine(
    SequenceId id, const std::optional<policy::CacheConfig>& cache) const {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  const absl::StatusOr<Sequence*> found = Find(id);
  if (!found.ok()) return found.status();
  const Sequence& sequence = **found;
  const policy::CacheConfig asked = cache.value_or(sequence.cache());
  auto input = sequence.Imagine(asked, board());
  if (!input.ok()) return input.status();
  return Imagined{*std::move(input), asked, {sequence.Info(now), sequence.Layers()}};
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
    const absl::StatusOr<SequenceDetail> after = sequence(id);
    if (!after.ok()) return after.status();
    if (!SameRows(before->detail, *after)) continue;
    Explanation explanation;
    explanation.cache = before->cache;
    for (size_t layer = 0; layer < before->detail.layers.size(); ++layer) {
      explanation.layers.push_back(
          ExplainLayer(before->input, layer, before->detail.layers[layer], &explanation.due));
    }
    return explanation;
  }
  return absl::UnavailableError(
      absl::StrCat("sequence ", id.value(), " is being evicted from; ask again"));
}

}  // namespace folio::cache
