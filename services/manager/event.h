// Event is something that happened in the manager, as operators see it. It is a plain value, and
// proto/folio/v1/admin.proto says which fields belong to which kind.
#ifndef FOLIO_SERVICES_MANAGER_EVENT_H_
#define FOLIO_SERVICES_MANAGER_EVENT_H_

#include <sys/types.h>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "services/base/ids.h"

namespace folio::manager {

// In the order of the protocol.
enum class EventKind : uint8_t {
  kPoolCreated,
  kWorkerAttached,
  kAttachRefused,
  kSessionBegan,
  kWorkerFenced,
  kSequencesOrphaned,
  kSequenceGivenUp,
  kProcessKilled,
  kKillFailed,
  kProcessEnded,
  kWorkerGone,
  kSequenceClaimed,
  kOrphanEnded,
  kSequenceRefused,
  kDraining,
  kDrained,
  kSequenceWaiting,
  kSequenceOpened,
  kSequenceClosed,
  kPagesEvicted,
  kSequenceParked,
  kCloseOrdered,
  kParkOrdered,
  kSequencePinned,
  kSequenceUnpinned,
  kDrainOrdered,
  kDrainUndone,
  kQuarantineReleased,
  kBudgetLowered,
  kQuotaSet,
  kManagerRestarted,
  kJournalFailed,
  kJournalResumed,
};
inline constexpr size_t kEventKinds = 33;

// By the number of the kind.
using EventKindSet = std::bitset<kEventKinds>;

struct Event {
  EventKind kind = EventKind::kPoolCreated;
  std::optional<WorkerId> worker = {};
  std::optional<std::string> worker_name = {};
  std::optional<Rank> rank = {};
  std::optional<pid_t> pid = {};
  std::optional<SequenceId> sequence = {};
  std::optional<std::string> label = {};
  std::optional<uint32_t> sequences = {};
  std::optional<PageCount> pages = {};
  std::optional<PageCount> freed_pages = {};
  std::optional<TokenCount> tokens = {};
  std::optional<LeaseEpoch> lease_epoch = {};
  std::optional<std::string> policy = {};
  std::optional<absl::StatusCode> code = {};
  std::optional<std::string> text = {};
  std::optional<uint32_t> workers = {};
  std::optional<std::string> pool = {};  // see PoolEvents

  // EventLog sets these two.
  uint64_t number = 0;
  int64_t time_us = 0;  // the time of day, in microseconds since 1970
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_EVENT_H_
