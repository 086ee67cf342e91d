#include "services/cache/restoration.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "services/cache/decision.h"
#include "services/cache/page_needs.h"
#include "services/cache/sequence_invariants.h"

namespace folio::cache {
namespace {

PageList PagesOf(const SavedCache& saved) {
  PageList pages;
  for (const SavedSequence& sequence : saved.sequences) {
    for (const BlockTable& table : sequence.layers) {
      pages.insert(pages.end(), table.pages().begin(), table.pages().end());
    }
  }
  for (const SavedQuarantine& one : saved.quarantines) {
    pages.insert(pages.end(), one.pages.begin(), one.pages.end());
  }
  return pages;
}

std::vector<SwapSlot> SlotsOf(const SavedCache& saved) {
  std::vector<SwapSlot> slots;
  for (const SavedSequence& sequence : saved.sequences) {
    slots.insert(slots.end(), sequence.slots.begin(), sequence.slots.end());
  }
  for (const SavedQuarantine& one : saved.quarantines) {
    slots.insert(slots.end(), one.slots.begin(), one.slots.end());
  }
  return slots;
}

}  // namespace

bool Restoration::Adopt(const SavedCache& saved) {
  Coordinator& c = coordinator_;
  c.mu_.AssertHeld();
  // Each owner adopts its own slots later, which this shows to be possible.
  return c.swap_.Adopt(SlotsOf(saved)).has_value() && c.pool_.Adopt(PagesOf(saved));
}

Restored Restoration::Restore(SavedCache saved) {
  Coordinator& c = coordinator_;
  const SteadyTime now = c.options_.clock->Now();
  absl::MutexLock lock(&c.mu_);
  Restored restored;
  // Those of workers that have ended are free.
  std::erase_if(saved.quarantines, [&](const SavedQuarantine& one) {
    return std::none_of(saved.workers.begin(), saved.workers.end(),
                        [&](const LostWorker& worker) { return worker.id == one.owner; });
  });
  restored.has_contents = saved.has_contents && Adopt(saved);
  if (restored.has_contents) {
    for (LostWorker& worker : saved.workers) c.leases_.AddLost(worker.id, std::move(worker.name));
    for (const SavedQuarantine& one : saved.quarantines) {
      for (const PageRef page : one.pages) c.pool_.Quarantine(page, one.owner);
      c.swap_.Adopt(one.slots)->Quarantine(one.owner);
      if (c.options_.journal == nullptr) continue;
      c.options_.journal->OnQuarantine(one.owner, one.pages, one.slots);
    }
  }
  for (SavedSequence& one : saved.sequences) {
    RestoreOne(std::move(one), restored.has_contents, now, restored);
  }
  return restored;
}

void Restoration::RestoreOne(SavedSequence saved, bool has_contents, SteadyTime now,
                             Restored& restored) {
  Coordinator& c = coordinator_;
  c.mu_.AssertHeld();
  auto sequence = std::make_unique<Sequence>(saved.id, saved.request, c.options_.geometry,
                                             saved.admission, saved.opened, c.options_.journal);
  SequenceRecord& record = sequence->record_;
  record.tokens.insert(record.tokens.end(), saved.sampled.begin(), saved.sampled.end());
  record.lease_epoch = saved.lease_epoch;
  // The worker that claimed it last was not lost with it.
  record.fruitless_claims = std::min(saved.fruitless_claims, kMaxFruitlessClaims - 1);
  record.furthest = saved.furthest;
  record.cache = std::move(saved.cache);
  record.orders.pinned = saved.pinned;
  if (saved.closing) record.orders.close = "";
  record.last_plan = saved.last_plan;
  if (has_contents) {
    record.logical_length = saved.logical_length.value();
    record.plans_here = saved.plans_here;
    record.layers = std::move(saved.layers);
    record.compacted = saved.compacted;
    record.compacted_before = saved.compacted_before;
    record.evicted_pages = saved.evicted_pages;
    record.parked = saved.parked;
    record.plan = std::move(saved.plan);
    record.shrinking = std::move(saved.shrinking);
    if (saved.swap != SwapUse::kNone) {
      record.swap = {saved.swap, *c.swap_.Adopt(std::move(saved.slots))};
    }
  }
  const bool gone = !c.leases_.all().contains(record.worker);
  sequence->TellAll();
  // Its worker may have begun to move tokens, or was about to be told to.
  if (saved.may_have_moved || (!record.parked && record.AtCompaction())) {
    sequence->GiveUpPages(c.pool_, gone);
    sequence->ForgetContents();
    sequence->TellAll();
  }
  if (c.options_.orphan_ttl <= absl::ZeroDuration() || !record.can_be_orphaned()) {
    sequence->GiveUpPages(c.pool_, gone);
    if (c.options_.journal != nullptr) c.options_.journal->OnEnd(record.id);
    ++restored.ended;
    return;
  }
  sequence->Orphan(now, c.pool_, gone);
  if (!Believe(*sequence)) {
    sequence->GiveUpPages(c.pool_, gone);
    sequence->ForgetContents();
    sequence->TellAll();
  }
  const bool contents = !record.parked || record.swap.use == SwapUse::kOut;
  ++(contents ? restored.kept : restored.again);
  if (gone) sequence->MakeClaimable(now, c.pool_);
  c.sequences_.emplace(record.id, std::move(sequence));
}

bool Restoration::Believe(Sequence& sequence) {
  Coordinator& c = coordinator_;
  c.mu_.AssertHeld();
  const SequenceRecord& record = sequence.record();
  if (!CheckContents(record).ok()) return false;
  if (record.parked) return true;
  const uint64_t promised = PageNeeds(record).Promised();
  if (promised > c.pool_.total().value()) return false;
  auto reservation = c.pool_.Reserve(PageCount(static_cast<uint32_t>(promised)));
  if (!reservation.has_value()) return false;
  sequence.reservation_ = *std::move(reservation);
  return true;
}

uint32_t Restoration::Decide() {
  Coordinator& c = coordinator_;
  std::vector<DecisionInput> inputs;
  {
    absl::MutexLock lock(&c.mu_);
    for (const auto& [id, sequence] : c.sequences_) {
      const SequenceRecord& record = sequence->record();
      if (record.parked || record.swap.use == SwapUse::kIn) continue;
      auto input = sequence->BeginDecision(c.board());
      if (input.has_value()) inputs.push_back(*std::move(input));
    }
  }
  if (inputs.empty()) return 0;
  std::vector<Decision> decisions =
      folio::cache::Decide(absl::MakeSpan(inputs), c.decision_threads_);
  absl::MutexLock lock(&c.mu_);
  for (size_t i = 0; i < decisions.size(); ++i) {
    (void)c.sequences_.at(inputs[i].sequence)
        ->FinishDecision(std::move(decisions[i].action), std::move(inputs[i].kept));
  }
  return static_cast<uint32_t>(decisions.size());
}

std::optional<SequenceId> Restoration::TellAgain(SequenceId last, uint32_t most) {
  Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  auto it = c.sequences_.upper_bound(last);
  for (uint32_t told = 0; it != c.sequences_.end() && told < most; ++told, ++it) {
    it->second->TellAll();
    last = it->first;
  }
  return it == c.sequences_.end() ? std::nullopt : std::optional(last);
}

uint32_t Restoration::LoseContents(const std::vector<WorkerId>& workers) {
  Coordinator& c = coordinator_;
  uint32_t lost = 0;
  {
    absl::MutexLock lock(&c.mu_);
    for (const auto& [id, sequence] : c.sequences_) {
      const SequenceRecord& record = sequence->record();
      if (record.parked && record.swap.use != SwapUse::kOut) continue;
      sequence->Park(c.pool_, /*swapped=*/false);
      ++lost;
    }
  }
  for (const WorkerId worker : workers) c.ConfirmExited(worker);
  return lost;
}

}  // namespace folio::cache
