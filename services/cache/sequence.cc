#include "services/cache/sequence.h"

#include <algorithm>
#include <utility>

#include "services/base/check.h"
#include "services/cache/decision_view.h"
#include "services/cache/describe_claim.h"
#include "services/cache/page_needs.h"

namespace folio::cache {

Sequence::Sequence(SequenceId id, const OpenRequest& request, const CacheGeometry& geometry,
                   Admission admission, SteadyTime opened, Journal* journal)
    : record_(id, request, geometry, admission, opened), journal_(journal) {
  record_.parked = true;
}

Sequence::~Sequence() { FOLIO_CHECK(record_.held_pages() == 0 && !record_.deciding); }

void Sequence::TellAll() {
  if (journal_ == nullptr) return;
  Settle();
  told_ = true;
  journal_->OnState(record_);
}

void Sequence::Tell(SavedChange change) {
  if (!told_) return;
  change.sequence = record_.id;
  change.logical_length = TokenCount(record_.logical_length);
  journal_->OnChange(change);
}

LayerPageLists Sequence::GrantPages(PagePool& pool, SteadyTime now) {
  Settle();
  record_.ready_since = now;
  if (record_.parked) return {};
  const bool restores = record_.swap.use == SwapUse::kIn && record_.held_pages() == 0;
  if (record_.plan_in_flight() && !restores) return {};
  LayerPageLists granted;
  if (!record_.asked_back && ReserveLacking(pool)) {
    for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
      BlockTable& table = record_.layers[layer];
      const uint64_t wanted = PageNeeds(record_).Wanted(layer);
      if (table.pages().size() >= wanted) continue;
      granted.resize(record_.layers.size());
      granted[layer].reserve(wanted - table.pages().size());
      while (table.pages().size() < wanted) {
        table.AddPage(pool.Take(reservation_));
        granted[layer].push_back(table.pages().back());
      }
    }
  }
  record_.quiet_tokens = PageNeeds(record_).QuietTokens();
  ResizeToPromise();
  if (!granted.empty()) pool.clearing_.OnPagesFor(record_.tenant);
  if (!granted.empty() && told_) Tell({.granted = granted});
  return granted;
}

bool Sequence::ReserveLacking(const PagePool& pool) {
  const PageCount lacking(static_cast<uint32_t>(PageNeeds(record_).Lacking()));
  const PageCount promised = reservation_.count();
  record_.starved = lacking > promised && lacking - promised > pool.available();
  if (!record_.starved && lacking > promised) reservation_.ResizeTo(lacking);
  return !record_.starved;
}

void Sequence::ResizeToPromise() {
  reservation_.ResizeTo(PageCount(static_cast<uint32_t>(PageNeeds(record_).Promised())));
}

void Sequence::Settle() const {
  if (unsettled_ == TokenCount(0)) return;
  const TokenCount growth = std::exchange(unsettled_, TokenCount(0));
  const Position first(record_.logical_length - growth.value());
  for (BlockTable& table : record_.layers) table.Append(first, growth);
}

uint64_t Sequence::ApplyCommit(const CommitTokens& request, bool quiet, PagePool& pool,
                               SteadyTime now) {
  bool tells_all = NoteSwappedIn();
  const bool in_prompt = !quiet && record_.in_prompt();
  record_.ready_since = now;
  const TokenCount growth(request.logical_length.value() - record_.logical_length);
  unsettled_ += growth;
  record_.logical_length += growth.value();
  record_.quiet_tokens -= std::min(record_.quiet_tokens, growth.value());
  if (growth > TokenCount(0)) record_.plans_here = 0;
  tells_all |= NoteProgress();
  record_.tokens.insert(record_.tokens.end(), request.sampled.begin(), request.sampled.end());
  if (!quiet) Settle();
  const uint64_t freed = quiet ? 0 : MoveWindows(pool);
  if (in_prompt && !record_.in_prompt()) tells_all |= OnPromptDone();
  if (tells_all) {
    TellAll();
  } else if (told_) {
    Tell({.sampled = request.sampled});
  }
  return freed;
}

std::optional<DecisionInput> Sequence::BeginDecision(const ScoreBoard& board) {
  Settle();
  const DecisionView view(record_, board);
  if (!view.due()) return std::nullopt;
  record_.deciding = true;
  record_.shrinking.OnDecision();
  record_.starved = false;  // the plan makes room
  return view.Snapshot(std::exchange(kept_, {}));
}

const Plan& Sequence::FinishDecision(Action action, std::vector<policy::KeptScores> kept) {
  FOLIO_CHECK(record_.deciding && !record_.plan.has_value());
  kept_ = std::move(kept);
  record_.deciding = false;
  ++record_.last_plan;
  const Plan& plan = record_.plan.emplace(Plan{record_.id, record_.last_plan, std::move(action)});
  if (!told_) return plan;
  if (std::holds_alternative<DropAction>(plan.action)) {
    Tell({.plan = plan});
  } else {
    Tell({.compacts = plan.epoch});
  }
  return plan;
}

bool Sequence::NoteProgress() {
  const Progress now{record_.logical_length, record_.plans_here};
  if (now <= record_.furthest) return false;
  record_.furthest = now;
  return std::exchange(record_.fruitless_claims, 0) > 0;
}

void Sequence::NoteTold(SwapSlots offer) {
  record_.told = true;
  if (offer.size() == 0) return;
  FOLIO_CHECK(record_.swap.use == SwapUse::kNone);
  record_.swap = {SwapUse::kOffered, std::move(offer)};
  TellAll();
}

bool Sequence::NoteSwappedIn() {
  if (record_.swap.use != SwapUse::kIn) return false;
  record_.swap = {};
  return true;
}

void Sequence::Park(PagePool& pool, bool swapped) {
  Settle();
  FOLIO_CHECK(!record_.deciding && (!record_.parked || record_.swap.use == SwapUse::kOut));
  if (swapped && record_.swap.use == SwapUse::kOffered && !record_.in_prompt()) {
    SwapOut(pool);
  } else {
    GiveUpPages(pool, /*quiesced=*/true);
    ForgetContents();
  }
  TellAll();
}

void Sequence::ForgetContents() {
  record_.plan.reset();
  record_.shrinking = {};
  record_.history.Clear();
  record_.logical_length = record_.plans_here = 0;
  record_.compacted = record_.compacted_before = false;
  record_.evicted_pages = 0;
  BecomeParked();
}

void Sequence::SwapOut(PagePool& pool) {
  size_t pages_with_tokens = 0;
  for (BlockTable& table : record_.layers) {
    pages_with_tokens += record_.geometry.pages_for(table.resident().value());
    pool.Release(table.GiveUpPages());
  }
  reservation_.ResizeTo(PageCount(0));
  record_.swap.slots.Truncate(pages_with_tokens);
  record_.swap.use = SwapUse::kOut;
  BecomeParked();
}

void Sequence::BecomeParked() {
  kept_.clear();
  record_.starved = record_.asked_back = record_.told = record_.orders.park = false;
  record_.parked = true;
}

void Sequence::LeaveAlone() {
  FOLIO_CHECK(record_.asked_back && !record_.told);
  record_.asked_back = false;
  record_.starved = !record_.plan_in_flight() && PageNeeds(record_).Lacking() > 0;
}

void Sequence::Unpark(PageReservation reservation) {
  FOLIO_CHECK(record_.parked && reservation.count().value() == PageNeeds(record_).ToPromise());
  reservation_ = std::move(reservation);
  record_.parked = false;
  if (record_.swap.use == SwapUse::kOut) record_.swap.use = SwapUse::kIn;
  TellAll();
}

void Sequence::Orphan(SteadyTime now, PagePool& pool, bool quiesced) {
  FOLIO_CHECK(record_.can_be_orphaned() && !record_.deciding && !record_.orphaned());
  if (record_.may_have_moved()) {
    GiveUpPages(pool, quiesced);
    ForgetContents();
    TellAll();
  }
  record_.orphaned_at = now;
  record_.starved = record_.asked_back = record_.told = record_.orders.park = false;
}

void Sequence::MakeClaimable(SteadyTime now, PagePool& pool) {
  FOLIO_CHECK(record_.orphaned());
  if (record_.swap.use == SwapUse::kIn) {
    SwapOut(pool);
    TellAll();
  }
  if (!record_.claimable_at.has_value()) record_.claimable_at = now;
}

Claimed Sequence::Claim(const ClaimRequest& request, PagePool& pool, SteadyTime now) {
  FOLIO_CHECK(record_.orphaned());
  record_.orphaned_at.reset();
  record_.claimable_at.reset();
  record_.worker = request.worker;
  record_.abilities = request.abilities;
  ++record_.lease_epoch;
  ++record_.fruitless_claims;
  if (record_.swap.use == SwapUse::kOffered) record_.swap = {};  // the last worker has gone
  TellAll();
  (void)GrantPages(pool, now);  // this worker may need more pages at a time
  return DescribeClaim(record_);
}

void Sequence::Widen(TokenCount prefill_ahead, PagePool& pool) {
  FOLIO_CHECK(record_.orphaned());
  if (!record_.footprint.Widen(prefill_ahead)) return;
  if (!record_.parked && record_.in_prompt()) {
    GiveUpPages(pool, /*quiesced=*/true);
    ForgetContents();
  }
  TellAll();
}

void Sequence::GiveUpPages(PagePool& pool, bool quiesced) {
  Settle();
  if (!quiesced && told_) {
    PageList held;
    for (const BlockTable& table : record_.layers) {
      held.insert(held.end(), table.pages().begin(), table.pages().end());
    }
    journal_->OnQuarantine(record_.worker, held, record_.swap.slots.all());
  }
  if (!quiesced) record_.swap.slots.Quarantine(record_.worker);
  record_.swap = {};
  for (BlockTable& table : record_.layers) {
    const PageList pages = table.Clear();
    if (quiesced) {
      pool.Release(pages);
    } else {
      for (PageRef page : pages) pool.Quarantine(page, record_.worker);
    }
  }
  reservation_.ResizeTo(PageCount(0));
}

std::vector<LayerTableInfo> DescribeLayers(const SequenceRecord& record) {
  std::vector<LayerTableInfo> layers;
  layers.reserve(record.layers.size());
  const bool swapped = record.swap.use == SwapUse::kOut || record.swap.use == SwapUse::kIn;
  auto slot = record.swap.slots.all().begin();
  for (const BlockTable& table : record.layers) {
    layers.push_back({table.pages(), table.resident(), table.positions(), {}});
    if (!swapped) continue;
    const auto end = slot + record.geometry.pages_for(table.resident().value());
    layers.back().slots.assign(slot, end);
    slot = end;
  }
  return layers;
}

}  // namespace folio::cache
