// The part of sequence.h that carries plans out in the block tables, and moves windows.
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "services/base/check.h"
#include "services/cache/budgets.h"
#include "services/cache/plan_history.h"
#include "services/cache/sequence.h"

namespace folio::cache {

void Sequence::ApplyPlan(PagePool& pool, SteadyTime now) {
  Settle();
  FOLIO_CHECK(record_.plan.has_value());
  bool tells_all = NoteSwappedIn();
  const Action& action = record_.plan->action;
  const uint64_t evicted = record_.evicted_pages;
  PastPlan past = {.epoch = record_.plan->epoch,
                   .when = now,
                   .logical_length = TokenCount(record_.logical_length)};
  past.losses.reserve(record_.layers.size());
  if (const auto* drop = std::get_if<DropAction>(&action)) {
    ApplyDrop(*drop, pool, past);
    NoteDrop();
  } else {
    ApplyCompaction(std::get<CompactAction>(action), pool, past);
    tells_all = true;
  }
  past.freed = PageCount(static_cast<uint32_t>(record_.evicted_pages - evicted));
  record_.history.Add(std::move(past));
  record_.plan.reset();
  ++record_.plans_here;
  tells_all |= NoteProgress();
  ResizeToPromise();
  if (tells_all) {
    TellAll();
  } else {
    Tell({.drop_done = true});
  }
}

void Sequence::ApplyCompaction(const CompactAction& compact, PagePool& pool, PastPlan& past) {
  past.compaction = true;
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    const LayerLoss loss = PlanHistory::LossOf(static_cast<uint32_t>(layer), record_.layers[layer],
                                               compact.keep[layer]);
    if (loss.tokens > TokenCount(0)) past.losses.push_back(loss);
    const PageList freed = record_.layers[layer].Compact(compact.keep[layer], compact.spare[layer]);
    pool.Release(freed);
    record_.evicted_pages += freed.size();
  }
  kept_.clear();
  const bool ends = record_.logical_length == record_.prompt_tokens;
  (ends ? record_.compacted : record_.compacted_before) = true;
  if (ends) (void)OnPromptDone();
}

void Sequence::ApplyDrop(const DropAction& drop, PagePool& pool, PastPlan& past) {
  PageList freed;
  freed.reserve(record_.layers.size());
  const LayerRange judges = record_.cache.judges(record_.geometry.num_layers);
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    const std::optional<BlockIndex> block = drop.block[layer];
    if (!block.has_value()) continue;
    past.losses.push_back(PlanHistory::LossOf(static_cast<uint32_t>(layer), record_.layers[layer],
                                              *block, record_.geometry.page_tokens));
    const PageList pages = record_.layers[layer].Drop(*block);
    freed.insert(freed.end(), pages.begin(), pages.end());
    if (!kept_.empty() && judges.contains(layer)) kept_[layer].Drop(*block);
  }
  pool.Release(freed);
  record_.evicted_pages += freed.size();
}

// Steps under way read no page that goes, because their tokens lie behind those of this commit.
uint64_t Sequence::MoveWindows(PagePool& pool) {
  if (!record_.geometry.windows.any()) return 0;
  uint64_t freed = 0;
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    if (!IsWindowed(record_, layer)) continue;
    BlockTable& table = record_.layers[layer];
    const CacheGeometry& geometry = record_.geometry;
    const PageList pages =
        table.Drop(BlockIndex(0),
                   geometry.windows.PagesPassed(layer, record_.logical_length,
                                                table.resident().value(), geometry.page_tokens));
    pool.Release(pages);
    freed += pages.size();
  }
  if (freed > 0) ResizeToPromise();
  return freed;
}

bool Sequence::OnPromptDone() {
  if (!Budgets(record_).over()) return false;
  std::vector<uint64_t> held;
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    held.push_back(record_.FullTokens(layer));
  }
  record_.shrinking = {std::move(held), /*begun=*/false};
  ResizeToPromise();
  return true;
}

void Sequence::NoteDrop() {
  record_.shrinking.OnPlan();
  if (record_.shrinking.active() && !Budgets(record_).over()) record_.shrinking = {};
}

}  // namespace folio::cache
