#include "services/manager/event_messages.h"

#include "absl/strings/str_cat.h"
#include "services/manager/worker_name.h"

namespace folio::manager {
namespace {

// EventKind is in the order of the protocol, whose 0 stands for none.
constexpr int ToProto(EventKind kind) { return static_cast<int>(kind) + 1; }

static_assert(kEventKinds == v1::EventKind_MAX);
static_assert(ToProto(EventKind::kPoolCreated) == v1::EVENT_KIND_POOL_CREATED);
static_assert(ToProto(EventKind::kWorkerFenced) == v1::EVENT_KIND_WORKER_FENCED);
static_assert(ToProto(EventKind::kWorkerGone) == v1::EVENT_KIND_WORKER_GONE);
static_assert(ToProto(EventKind::kDrained) == v1::EVENT_KIND_DRAINED);
static_assert(ToProto(EventKind::kPagesEvicted) == v1::EVENT_KIND_PAGES_EVICTED);
static_assert(ToProto(EventKind::kSequenceParked) == v1::EVENT_KIND_SEQUENCE_PARKED);
static_assert(ToProto(EventKind::kDrainOrdered) == v1::EVENT_KIND_DRAIN_ORDERED);
static_assert(ToProto(EventKind::kQuarantineReleased) == v1::EVENT_KIND_QUARANTINE_RELEASED);
static_assert(ToProto(EventKind::kQuotaSet) == v1::EVENT_KIND_QUOTA_SET);
static_assert(ToProto(EventKind::kJournalResumed) == v1::EVENT_KIND_JOURNAL_RESUMED);

bool IsFrequent(EventKind kind) {
  return kind == EventKind::kSequenceWaiting || kind == EventKind::kSequenceOpened ||
         kind == EventKind::kSequenceClosed || kind == EventKind::kPagesEvicted ||
         kind == EventKind::kSequenceParked;
}

}  // namespace

void WriteEvent(const Event& event, v1::Event* out) {
  out->set_number(event.number);
  out->set_time_us(static_cast<uint64_t>(event.time_us));
  out->set_kind(static_cast<v1::EventKind>(ToProto(event.kind)));
  if (event.worker) out->set_worker_id(WorkerName(*event.worker));
  if (event.worker_name) out->set_worker_name(*event.worker_name);
  if (event.rank) out->set_rank(event.rank->value());
  if (event.pid) out->set_pid(*event.pid);
  if (event.sequence) out->set_sequence_id(event.sequence->value());
  if (event.label) out->set_label(*event.label);
  if (event.sequences) out->set_sequences(*event.sequences);
  if (event.pages) out->set_pages(event.pages->value());
  if (event.freed_pages) out->set_freed_pages(event.freed_pages->value());
  if (event.tokens) out->set_tokens(event.tokens->value());
  if (event.lease_epoch) out->set_lease_epoch(event.lease_epoch->value());
  if (event.policy) out->set_policy(*event.policy);
  if (event.code) out->set_code(absl::StatusCodeToString(*event.code));
  if (event.text) out->set_text(*event.text);
  if (event.workers) out->set_workers(*event.workers);
  if (event.pool) out->set_pool(*event.pool);
}

absl::StatusOr<EventKindSet> EventKindsFromProto(const v1::WatchEventsRequest& request) {
  EventKindSet kinds;
  for (int i = 0; i < request.kinds_size(); ++i) {
    const int kind = request.kinds(i);
    if (kind < ToProto(EventKind::kPoolCreated) || kind > v1::EventKind_MAX) {
      return absl::InvalidArgumentError(absl::StrCat("kinds[", i, "]: ", kind,
                                                     " is not a kind of event, the kinds are 1 to ",
                                                     v1::EventKind_MAX));
    }
    kinds.set(static_cast<size_t>(kind - 1));
  }
  if (kinds.any()) return kinds;
  for (size_t kind = 0; kind < kEventKinds; ++kind) {
    kinds.set(kind, !IsFrequent(static_cast<EventKind>(kind)));
  }
  return kinds;
}

}  // namespace folio::manager
