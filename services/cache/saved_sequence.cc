#include "services/cache/saved_sequence.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"

namespace folio::cache {
namespace {

absl::Status DoesNotFit(SequenceId id, absl::string_view why) {
  return absl::InternalError(absl::StrCat("sequence ", id.value(), ": ", why));
}

}  // namespace

bool SavedSequence::over() const {
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    if (windows.contains(layer)) continue;
    const uint32_t resident = layers[layer].resident().value();
    const uint32_t full = resident - resident % layers[layer].page_tokens_;
    if (full > cache.layer_budget(layer).value()) return true;
  }
  return false;
}

absl::Status SavedSequence::ApplyDrop() {
  if (!plan.has_value()) return DoesNotFit(id, "a plan was carried out that did not wait");
  const std::vector<std::optional<BlockIndex>>& block = std::get<DropAction>(plan->action).block;
  if (block.size() != layers.size()) {
    return DoesNotFit(id, "a plan is for another number of layers");
  }
  for (size_t layer = 0; layer < block.size(); ++layer) {
    if (!block[layer].has_value()) continue;
    BlockTable& table = layers[layer];
    const uint64_t end = (uint64_t{block[layer]->value()} + 1) * table.page_tokens_;
    if (end > table.resident().value() || end > table.capacity()) {
      return DoesNotFit(id, "a plan drops a block that is not full");
    }
    (void)table.Drop(*block[layer]);
    ++evicted_pages;
  }
  plan.reset();
  ++plans_here;
  shrinking.OnPlan();
  if (shrinking.active() && !over()) shrinking = {};
  return absl::OkStatus();
}

void SavedSequence::LoseContents() {
  logical_length = TokenCount(0);
  plans_here = 0;
  for (BlockTable& table : layers) (void)table.Clear();
  compacted = compacted_before = may_have_moved = false;
  evicted_pages = 0;
  parked = true;
  swap = SwapUse::kNone;
  slots.clear();
  plan.reset();
  shrinking = {};
}

absl::Status SavedSequence::MoveWindows() {
  if (!windows.any()) return absl::OkStatus();
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    if (!windows.contains(layer)) continue;
    BlockTable& table = layers[layer];
    const uint32_t length = logical_length.value();
    const uint32_t behind = windows.TokensBehind(layer, length, table.page_tokens_);
    const uint32_t resident = table.resident().value();
    if (resident > length || length - resident > behind ||
        (behind - (length - resident)) % table.page_tokens_ != 0) {
      return DoesNotFit(id, "a layer with a window has other tokens than those of its window");
    }
    (void)table.Drop(BlockIndex(0),
                     windows.PagesPassed(layer, length, resident, table.page_tokens_));
  }
  return absl::OkStatus();
}

absl::Status SavedSequence::Apply(const SavedChange& change) {
  if (change.drop_done) {
    if (absl::Status dropped = ApplyDrop(); !dropped.ok()) return dropped;
  }
  if (!change.granted.empty() && change.granted.size() != layers.size()) {
    return DoesNotFit(id, "pages came for another number of layers");
  }
  for (size_t layer = 0; layer < change.granted.size(); ++layer) {
    for (const PageRef page : change.granted[layer]) layers[layer].AddPage(page);
  }
  if (change.logical_length < logical_length) return DoesNotFit(id, "its length goes backwards");
  const TokenCount growth = change.logical_length - logical_length;
  for (BlockTable& table : layers) {
    if (growth == TokenCount(0)) break;
    if (uint64_t{table.resident().value()} + growth.value() > table.capacity()) {
      return DoesNotFit(id, "its tokens do not fit into its pages");
    }
    table.Append(Position(logical_length.value()), growth);
  }
  if (growth > TokenCount(0)) plans_here = 0;
  logical_length = change.logical_length;
  if (absl::Status moved = MoveWindows(); !moved.ok()) return moved;
  furthest = std::max(furthest, Progress{logical_length.value(), plans_here});
  sampled.insert(sampled.end(), change.sampled.begin(), change.sampled.end());
  if (change.plan.has_value()) {
    if (!std::holds_alternative<DropAction>(change.plan->action)) {
      return DoesNotFit(id, "a plan is not a drop");
    }
    shrinking.OnDecision();
    plan = change.plan;
    last_plan = plan->epoch;
  }
  if (change.compacts.has_value()) {
    may_have_moved = true;
    last_plan = *change.compacts;
  }
  return absl::OkStatus();
}

SavedSequence Save(const SequenceRecord& record) {
  const auto prompt_end = record.tokens.begin() + record.prompt_tokens;
  SavedSequence saved;
  saved.id = record.id;
  saved.request = {.worker = record.worker,
                   .prompt = {record.tokens.begin(), prompt_end},
                   .max_new_tokens = TokenCount(record.max_new_tokens),
                   .cache = record.cache_of_prompt,
                   .metadata = record.metadata,
                   .abilities = record.abilities,
                   .urgency = {record.priority, record.opened - record.arrived},
                   .tenant = record.tenant};
  saved.request.abilities.prefill_ahead = record.footprint.prefill_ahead();
  saved.admission = record.admission;
  saved.opened = record.opened;
  saved.lease_epoch = record.lease_epoch;
  saved.fruitless_claims = record.fruitless_claims;
  saved.furthest = record.furthest;
  saved.cache = record.cache;
  saved.shrinking = record.shrinking;
  saved.pinned = record.orders.pinned;
  saved.closing = record.orders.close.has_value();
  saved.sampled = {prompt_end, record.tokens.end()};
  saved.logical_length = TokenCount(record.logical_length);
  saved.plans_here = record.plans_here;
  saved.layers = record.layers;
  saved.compacted = record.compacted;
  saved.compacted_before = record.compacted_before;
  saved.evicted_pages = record.evicted_pages;
  saved.parked = record.parked;
  saved.swap = record.swap.use;
  saved.slots = record.swap.slots.all();
  saved.last_plan = record.last_plan;
  const bool drop =
      record.plan.has_value() && std::holds_alternative<DropAction>(record.plan->action);
  if (drop) saved.plan = record.plan;
  saved.may_have_moved = record.may_have_moved();
  saved.windows = record.geometry.windows;
  return saved;
}

absl::StatusOr<BlockTable> MakeTable(uint32_t page_tokens, const PageList& pages,
                                     const std::vector<PositionRange>& positions,
                                     bool without_pages) {
  BlockTable table(page_tokens);
  uint64_t resident = 0;
  Position behind;
  for (const PositionRange& range : positions) {
    if (range.begin < behind || range.end <= range.begin) {
      return absl::InternalError("positions of tokens are not ascending");
    }
    behind = range.end;
    resident += (range.end - range.begin).value();
  }
  if (without_pages) {
    for (uint64_t i = 0; i < resident; i += page_tokens) table.AddPage({});
  } else {
    for (const PageRef page : pages) table.AddPage(page);
  }
  if (resident > table.capacity()) {
    return absl::InternalError(
        absl::StrCat(resident, " tokens do not fit into ", pages.size(), " pages"));
  }
  for (const PositionRange& range : positions) {
    table.Append(range.begin, TokenCount((range.end - range.begin).value()));
  }
  if (without_pages) (void)table.GiveUpPages();
  return table;
}

}  // namespace folio::cache
