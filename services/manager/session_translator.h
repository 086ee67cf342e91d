// SessionTranslator is one worker's session: it turns each request into its one reply by asking the
// coordinator. It knows neither streams nor messages, so that the gRPC service and callers in the
// same process share it.
//
// The parts of a request are carried out in the order ack, commit, close, claim, open: a plan is
// applied before the step that follows it, the pages that a close gives back may serve an open, and
// a claimed orphan is out of the way before an open looks for room.
#ifndef FOLIO_SERVICES_MANAGER_SESSION_TRANSLATOR_H_
#define FOLIO_SERVICES_MANAGER_SESSION_TRANSLATOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/cache/coordinator.h"
#include "services/manager/cache_options.h"
#include "services/manager/pool_events.h"

namespace folio::manager {

// Thread-compatible: one thread per session.
class SessionTranslator {
 public:
  // `coordinator` is borrowed, `worker` was added to it, and `rules` fit its geometry. `may_open`,
  // if given, is asked before each open and claim; an error that it returns is the answer.
  // `event_log` gets an event for what becomes of each sequence.
  SessionTranslator(cache::Coordinator& coordinator, WorkerId worker, const CacheRules& rules,
                    std::function<absl::Status()> may_open = nullptr, PoolEvents event_log = {});

  // Renews the worker's lease and carries out the request. A failure of one sequence is part of the
  // reply and leaves that sequence as it was. An error ends the session, and then no part of the
  // request was carried out: INVALID_ARGUMENT if `step` does not grow, and the coordinator's error
  // if the worker is fenced.
  absl::StatusOr<SessionReply> Translate(const SessionRequest& request);

 private:
  // The acknowledgements and then the commits.
  void Step(const SessionRequest& request, SessionReply& reply);
  void Close(const CloseSequence& close, SessionReply& reply);
  OpenResult Open(const OpenSequence& open);
  ClaimResult Claim(const ClaimSequence& claim);
  void Park(const ParkSequence& park, SessionReply& reply);
  void Unpark(const UnparkSequence& unpark, SessionReply& reply);
  // Adds what the worker is to be told beside the answers.
  void Attend(SessionReply& reply);
  // Orphans ended, because others need their pages.
  void NoteEnded(const std::vector<SequenceId>& orphans);
  // Notes what came of an open or a claim.
  void RecordOpened(const OpenSequence& open, const cache::Opened& opened);
  void RecordNotOpened(const OpenSequence& open, const OpenResult& result);
  void RecordClaim(const ClaimSequence& claim, const absl::StatusOr<cache::Claimed>& claimed);
  void Record(Event event);
  absl::Status MayOpen() const { return may_open_ ? may_open_() : absl::OkStatus(); }

  cache::Coordinator& coordinator_;
  const WorkerId worker_;
  const CacheRules rules_;
  const std::function<absl::Status()> may_open_;
  const PoolEvents event_log_;
  std::optional<uint64_t> last_step_;
  std::string waiting_;  // resume token and label of the request whose wait was recorded last
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_SESSION_TRANSLATOR_H_
