// One worker's session: turns each SessionRequest into its one SessionReply by asking the
// coordinator. Knows nothing of streams, so that the gRPC service and in-process callers share it.
//
// Within a request the parts are carried out in the order ack, commit, close, claim, open: a plan
// is applied before the step that follows it, what a close gives back may serve an open, and an
// orphan that is claimed is in nobody's way.
#ifndef FOLIO_SERVICES_MANAGER_SESSION_TRANSLATOR_H_
#define FOLIO_SERVICES_MANAGER_SESSION_TRANSLATOR_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/cache/coordinator.h"
#include "services/common/ids.h"
#include "services/manager/convert.h"

namespace folio::manager {

// Thread-compatible: one thread per session.
class SessionTranslator {
 public:
  // `coordinator` is borrowed; `worker` was added to it; `rules` are of its geometry.
  // `may_open`, when given, is asked before each open and claim; its refusal is the answer.
  SessionTranslator(cache::Coordinator& coordinator, WorkerId worker, const CacheRules& rules,
                    std::function<absl::Status()> may_open = nullptr);

  // Renews the worker's lease and carries out the request. What fails for one sequence is told in
  // the reply and leaves that sequence as it was. An error ends the session, and nothing of the
  // request was carried out: INVALID_ARGUMENT when `step` does not grow or `hello` comes again; the
  // coordinator's refusal when the worker is fenced.
  absl::StatusOr<v1::SessionReply> Translate(const v1::SessionRequest& request);

 private:
  void Ack(const v1::AckPlan& ack, v1::SessionReply& reply);
  void Commit(const v1::CommitTokens& commit, v1::SessionReply& reply);
  void Close(const v1::CloseSequence& close, v1::SessionReply& reply);
  v1::OpenResult Open(const v1::OpenSequence& open);
  v1::ClaimResult Claim(const v1::ClaimSequence& claim);

  cache::Coordinator& coordinator_;
  const WorkerId worker_;
  const CacheRules rules_;
  const std::function<absl::Status()> may_open_;
  std::optional<uint64_t> last_step_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_SESSION_TRANSLATOR_H_
