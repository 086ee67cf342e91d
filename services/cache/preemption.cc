#include "services/cache/preemption.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "services/cache/page_needs.h"
#include "services/cache/sequence_orders.h"

namespace folio::cache {
namespace {

// Pages that the sequence lacks and was not promised.
uint64_t Shortage(const Sequence& sequence) {
  const uint64_t lacking = PageNeeds(sequence.record()).Lacking();
  return lacking - std::min<uint64_t>(lacking, sequence.reserved_pages().value());
}

// Keeps its pages longer. A sequence that has waited does not take them from one of a higher
// priority, so this is not the order of the line (see urgency.h).
bool ComesBefore(const SequenceRecord& a, const SequenceRecord& b) {
  return std::tuple(a.priority, a.arrived, a.id) < std::tuple(b.priority, b.arrived, b.id);
}

// Each step of its worker has a token of it, unless its client does not read.
bool CouldDecode(const SequenceRecord& record) {
  const bool has_contents = record.swap.use != SwapUse::kIn;
  return Runs(record) && has_contents && !record.in_prompt() && !record.plan_in_flight() &&
         !record.starved;
}

}  // namespace

bool Preemption::starving() const {
  if (!shortage_) return false;
  return std::any_of(sequences_.begin(), sequences_.end(),
                     [](const auto& one) { return one.second->record().starved; });
}

Sequence* Preemption::NextVictim() const {
  Sequence* last = nullptr;
  size_t left = 0;  // those that keep running
  for (const auto& [id, sequence] : sequences_) {
    const SequenceRecord& record = sequence->record();
    if (!Runs(record) || record.asked_back || !record.abilities.parks) continue;
    ++left;
    if (record.orders.pinned) continue;
    if (last == nullptr || ComesBefore(last->record(), record)) last = sequence.get();
  }
  return left > 1 ? last : nullptr;
}

std::vector<SequenceId> Preemption::Relieve(SteadyTime now) {
  uint64_t lacking = 0;
  uint64_t coming = pool_.available().value();
  for (const auto& [id, sequence] : sequences_) {
    const SequenceRecord& record = sequence->record();
    if (record.orphaned()) continue;
    if (record.asked_back) coming += record.held_pages() + sequence->reserved_pages().value();
    if (record.starved && !record.asked_back) lacking += Shortage(*sequence);
  }
  if (lacking <= coming) return {};
  std::vector<SequenceId> ended =
      orphanage_.MakeRoom(pool_.available().value() + lacking - coming, now);
  if (!ended.empty()) return ended;
  while (lacking > coming) {
    Sequence* victim = NextVictim();
    if (victim == nullptr) return {};
    const SequenceRecord& record = victim->record();
    victim->AskBack();
    coming += record.held_pages() + victim->reserved_pages().value();
    if (record.starved) lacking -= Shortage(*victim);
  }
  return {};
}

std::vector<Sequence*> Preemption::StarvedOf(WorkerId worker) const {
  std::vector<Sequence*> starved;
  for (const auto& [id, sequence] : sequences_) {
    const SequenceRecord& record = sequence->record();
    if (record.worker == worker && record.starved && Runs(record) && !record.asked_back) {
      starved.push_back(sequence.get());
    }
  }
  std::sort(starved.begin(), starved.end(), [](const Sequence* a, const Sequence* b) {
    return ComesBefore(a->record(), b->record());
  });
  return starved;
}

void Preemption::Tell(Sequence& sequence, Attention& attention) {
  const SequenceRecord& record = sequence.record();
  std::optional<SwapSlots> slots;
  // While its worker still copies the contents back, it may not copy them out over themselves. A
  // prompt is rather computed again than copied.
  if (record.abilities.swaps && record.swap.use == SwapUse::kNone && !record.in_prompt()) {
    slots = swap_.Take(record.held_pages());
  }
  attention.park.push_back(record.id);
  if (slots.has_value()) attention.swap.push_back({record.id, slots->all()});
  sequence.NoteTold(slots.has_value() ? *std::move(slots) : SwapSlots());
}

void Preemption::AskBackIdle(WorkerId worker, const Circumstances& circumstances,
                             Attention& attention) {
  if (!circumstances.progress.has_value()) return;
  // The oldest step under way. If it began before a sequence was ready, it may have its next token.
  const SteadyTime step_began =
      circumstances.now - absl::Milliseconds(circumstances.progress->in_flight_ms);
  for (const auto& [id, sequence] : sequences_) {
    const SequenceRecord& record = sequence->record();
    if (record.worker != worker || record.asked_back || !record.abilities.parks) continue;
    if (record.orders.pinned) continue;
    if (!CouldDecode(record) || step_began - record.ready_since < kStandsStillAfter) continue;
    sequence->AskBack();
    Tell(*sequence, attention);
  }
}

void Preemption::TellOrders(WorkerId worker, Attention& attention) {
  orders_ = false;
  for (const auto& [id, sequence] : sequences_) {
    const SequenceRecord& record = sequence->record();
    const Orders& orders = record.orders;
    const bool closes = orders.close.has_value() && !orders.told_to_close;
    if (!closes && !orders.park) continue;
    if (record.worker != worker || record.orphaned()) {
      orders_ = true;
      continue;
    }
    if (closes) attention.close.push_back({id, *orders.close});
    const bool parks = orders.park && !record.told && !orders.close.has_value();
    SequenceOrders(*sequence).NoteTold();
    if (!parks) continue;
    if (!record.asked_back) sequence->AskBack();
    Tell(*sequence, attention);
  }
}

Attention Preemption::Attend(WorkerId worker, const Circumstances& circumstances) {
  Attention attention;
  if (orders_) TellOrders(worker, attention);
  if (starving() || circumstances.others_wait) AskBackIdle(worker, circumstances, attention);
  if (!shortage_) return attention;
  for (Sequence* sequence : StarvedOf(worker)) {
    LayerPageLists pages = sequence->GrantPages(pool_, circumstances.now);
    if (pages.empty()) break;
    attention.granted.push_back({sequence->record().id, std::move(pages)});
  }
  const bool starving = this->starving();
  if (starving) attention.ended = Relieve(circumstances.now);
  for (const auto& [id, sequence] : sequences_) {
    const SequenceRecord& record = sequence->record();
    if (!record.asked_back || record.told) continue;
    if (!starving) {
      sequence->LeaveAlone();
    } else if (record.worker == worker) {
      Tell(*sequence, attention);
    }
  }
  shortage_ = this->starving();
  return attention;
}

}  // namespace folio::cache
