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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/cache/coordinator.h"
#include "services/manager/cache_options.h"

namespace folio::manager {

// Thread-compatible: one thread per session.
class SessionTranslator {
 public:
  // `coordinator` is borrowed, `worker` was added to it, and `rules` fit its geometry. `may_open`,
  // if given, is asked before each open and claim; an error that it returns is the answer.
  SessionTranslator(cache::Coordinator& coordinator, WorkerId worker, const CacheRules& rules,
                    std::function<absl::Status()> may_open = nullptr);

  // Renews the worker's lease and carries out the request. A failure of one sequence is part of the
  // reply and leaves that sequence as it was. An error ends the session, and then no part of the
  // request was carried out: INVALID_ARGUMENT if `step` does not grow, and the coordinator's error
  // if the worker is fenced.
  absl::StatusOr<SessionReply> Translate(const SessionRequest& request);

 private:
  void Ack(const AckPlan& ack, SessionReply& reply);
  void Commit(const CommitTokens& commit, SessionReply& reply);
  void Close(const CloseSequence& close, SessionReply& reply);
  OpenResult Open(const OpenSequence& open);
  ClaimResult Claim(const ClaimSequence& claim);
  absl::Status MayOpen() const { return may_open_ ? may_open_() : absl::OkStatus(); }

  cache::Coordinator& coordinator_;
  const WorkerId worker_;
  const CacheRules rules_;
  const std::function<absl::Status()> may_open_;
  std::optional<uint64_t> last_step_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_SESSION_TRANSLATOR_H_
