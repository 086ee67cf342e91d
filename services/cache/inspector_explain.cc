// Inspector::Explain: a dry run of an eviction.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/decision_view.h"
#include "services/cache/inspector.h"
#include "services/cache/sequence_checks.h"
#include "services/policy/ranking.h"

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

// Adds the layers of a group that decides together, with the tokens or the block that the policy
// would take. All have the same tokens and limits. Sets `due` if they are over their budget.
void ExplainGroup(const DecisionInput& input, policy::LayerGroup group,
                  absl::Span<const LayerTableInfo> tables, Explanation* explanation) {
  const DecisionInput::Layer& first = input.layers[group[0].layer.value()];
  const policy::Limits& limits = first.limits;
  const TokenCount resident = group[0].tokens;
  const uint32_t full = resident.value() / input.page_tokens * input.page_tokens;
  ExplainedLayer taken;
  taken.budget = limits.budget;
  taken.resident = resident;
  const bool evicts = input.policy->traits().evicts && !first.windowed;
  std::vector<policy::LayerScores> whole(group.begin(), group.end());
  const absl::Span<policy::LayerScores> judges =
      input.shared ? absl::MakeSpan(whole).subspan(input.judges.begin, input.judges.size())
                   : absl::MakeSpan(whole);
  if (evicts) {
    explanation->due = explanation->due || full > limits.budget.value();
    if (first.compacts) {
      taken.drop = DroppedPositions(tables[0].kept, input.policy->SelectPrefill(judges, limits));
    } else {
      for (policy::LayerScores& layer : whole) {
        layer.tokens = TokenCount(full);
        layer.scored = std::min(layer.scored, layer.tokens);
      }
      if (policy::MayDrop(full / input.page_tokens, input.page_tokens, limits)) {
        taken.block = input.policy->SelectDecode(judges, limits, {});
      }
    }
  }
  for (const policy::LayerScores& layer : whole) {
    ExplainedLayer& out = explanation->layers.emplace_back(taken);
    if (!evicts || !input.judges.contains(layer.layer.value())) continue;
    out.scores =
        first.compacts ? input.policy->TokenScores(layer) : input.policy->BlockScores(layer);
  }
}

}  // namespace

absl::StatusOr<Inspector::DryRunInput> Inspector::DryRun(
    SequenceId id, const std::optional<policy::CacheConfig>& cache) const {
  const Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  const absl::StatusOr<Sequence*> found = c.Find(id);
  if (!found.ok()) return found.status();
  const SequenceRecord& record = (*found)->record();
  const ScoreBoard board = c.board();
  auto input = DecisionView(record, board).DryRun(cache);
  if (!input.ok()) return input.status();
  return DryRunInput{*std::move(input), cache.value_or(record.cache), record.last_plan,
                     DescribeLayers(record)};
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
    if (absl::Status valid = CheckSettings(*cache, geometry); !valid.ok()) return valid;
  }
  constexpr int kAttempts = 5;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    absl::StatusOr<DryRunInput> seen = DryRun(id, cache);
    if (!seen.ok()) return seen.status();
    Explanation explanation;
    explanation.cache = seen->cache;
    // Scores are copied without the lock, and no more layers at a time than decide together,
    // because those of a long sequence may be hundreds of MB. A copy is good if no plan was made
    // and no page moved meanwhile.
    const size_t layers = seen->layers.size();
    const size_t together = seen->input.shared ? layers : 1;
    std::vector<std::vector<float>> copies(together);
    while (explanation.layers.size() < layers) {
      const size_t begin = explanation.layers.size();
      std::vector<policy::LayerScores> group;
      bool good = true;
      for (size_t layer = begin; good && layer < begin + together; ++layer) {
        CopyScores(seen->input.layers[layer], coordinator_.options_.geometry.scores_per_page(),
                   copies[layer - begin]);
        const absl::StatusOr<bool> still = StillThere(*seen, layer);
        if (!still.ok()) return still.status();
        good = *still;
        group.push_back(seen->input.Scores(layer));
      }
      if (!good) break;
      ExplainGroup(seen->input, group, absl::MakeConstSpan(seen->layers).subspan(begin, together),
                   &explanation);
    }
    if (explanation.layers.size() == layers) return explanation;
  }
  return absl::UnavailableError(
      absl::StrCat("sequence ", id.value(), " is being evicted from; ask again"));
}

}  // namespace folio::cache
