#include "services/cache/sequence.h"

#include <utility>

#include "services/base/check.h"
#include "services/cache/decision_view.h"

namespace folio::cache {

Sequence::Sequence(SequenceId id, const OpenRequest& request, const CacheGeometry& geometry,
                   PageReservation reservation, absl::Time opened)
    : record_(id, request, geometry, opened), reservation_(std::move(reservation)) {}

Sequence::~Sequence() { FOLIO_CHECK(record_.held_pages() == 0 && !record_.deciding); }

LayerPageLists Sequence::GrantPages(PagePool& pool) {
  if (record_.plan_in_flight()) return {};
  LayerPageLists granted;
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    BlockTable& table = record_.layers[layer];
    const uint64_t wanted = record_.PagesWanted(layer);
    while (table.pages().size() < wanted) {
      table.AddPage(pool.Take(reservation_));
      granted.resize(record_.layers.size());
      granted[layer].push_back(table.pages().back());
    }
  }
  return granted;
}

void Sequence::ApplyCommit(const CommitRequest& request) {
  const Position first(record_.logical_length);
  const TokenCount growth(request.logical_length.value() - record_.logical_length);
  for (BlockTable& table : record_.layers) table.Append(first, growth);
  record_.logical_length += growth.value();
  record_.tokens.insert(record_.tokens.end(), request.sampled.begin(), request.sampled.end());
}

std::optional<DecisionInput> Sequence::BeginDecision(const ScoreBoard& board) {
  const DecisionView view(record_, board);
  if (!view.due()) return std::nullopt;
  record_.deciding = true;
  DecisionInput input = view.Snapshot();
  if (!input.compact && record_.policy().needs_scores()) {
    input.kept = std::exchange(kept_, {});
    input.kept.resize(record_.layers.size());
  }
  return input;
}

const Plan& Sequence::FinishDecision(Action action, std::vector<policy::KeptScores> kept) {
  FOLIO_CHECK(record_.deciding && !record_.plan.has_value());
  kept_ = std::move(kept);
  record_.deciding = false;
  ++record_.last_plan;
  return record_.plan.emplace(Plan{record_.id, record_.last_plan, std::move(action)});
}

void Sequence::ApplyPlan(PagePool& pool) {
  FOLIO_CHECK(record_.plan.has_value());
  const Action& action = record_.plan->action;
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    BlockTable& table = record_.layers[layer];
    PageList freed;
    if (const auto* compact = std::get_if<CompactAction>(&action)) {
      freed = table.Compact(compact->keep[layer], compact->spare[layer]);
      record_.compacted = true;
    } else if (const auto block = std::get<DropAction>(action).block[layer]) {
      freed.push_back(table.Drop(*block));
      if (!kept_.empty()) kept_[layer].Drop(*block);
    }
    for (PageRef page : freed) pool.Release(page);
    record_.evicted_pages += freed.size();
  }
  if (std::holds_alternative<CompactAction>(action)) kept_.clear();
  record_.plan.reset();
  reservation_.ResizeTo(PageCount(static_cast<uint32_t>(record_.PagesPromised())));
}

void Sequence::Orphan(absl::Time now) {
  FOLIO_CHECK(record_.can_be_orphaned() && !record_.deciding && !record_.orphaned());
  record_.orphaned_at = now;
}

Claimed Sequence::Claim(WorkerId worker) {
  FOLIO_CHECK(record_.orphaned());
  record_.orphaned_at.reset();
  record_.worker = worker;
  ++record_.lease_epoch;
  Claimed claimed;
  claimed.sequence = record_.id;
  claimed.lease_epoch = record_.lease_epoch;
  claimed.cache = record_.cache;
  claimed.sampling = record_.metadata.sampling;
  claimed.label = record_.metadata.label;
  claimed.output = record_.metadata.output;
  claimed.tokens = record_.tokens;
  claimed.prompt_tokens = TokenCount(record_.prompt_tokens);
  claimed.max_new_tokens = TokenCount(record_.max_new_tokens);
  claimed.logical_length = TokenCount(record_.logical_length);
  claimed.layers = DescribeLayers(record_);
  claimed.evicted_pages = PageCount(static_cast<uint32_t>(record_.evicted_pages));
  claimed.scores = record_.policy().scores;
  claimed.prompt_scores = record_.policy().prompt_scores;
  claimed.plan = record_.plan;
  return claimed;
}

void Sequence::Release(PagePool& pool) {
  for (BlockTable& table : record_.layers) {
    for (PageRef page : table.Clear()) pool.Release(page);
  }
  reservation_.ResizeTo(PageCount(0));
}

void Sequence::Quarantine(PagePool& pool) {
  for (BlockTable& table : record_.layers) {
    for (PageRef page : table.Clear()) pool.Quarantine(page, record_.worker);
  }
  reservation_.ResizeTo(PageCount(0));
}

std::vector<LayerTableInfo> DescribeLayers(const SequenceRecord& record) {
  std::vector<LayerTableInfo> layers;
  layers.reserve(record.layers.size());
  for (const BlockTable& table : record.layers) {
    layers.push_back({table.pages(), table.resident(), table.positions()});
  }
  return layers;
}

}  // namespace folio::cache
