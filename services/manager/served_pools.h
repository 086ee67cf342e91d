// ServedPools are all pools of a manager, and find the one that a worker, a token or a sequence
// belongs to. Ids and tokens are unique among them.
#ifndef FOLIO_SERVICES_MANAGER_SERVED_POOLS_H_
#define FOLIO_SERVICES_MANAGER_SERVED_POOLS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/manager/served_pool.h"

namespace folio::manager {

// A session, and the pool that it is in.
struct PoolSession {
  ServedPool* home = nullptr;
  BegunSession begun;
};

// A worker, and the pool that it is in.
struct PoolWorker {
  ServedPool* home = nullptr;
  WorkerReport report;
};

// Thread-safe. The list does not change.
class ServedPools {
 public:
  // There is at least one. All share their drains. `events` gets what concerns none of them.
  ServedPools(std::vector<std::unique_ptr<ServedPool>> pools, PoolEvents events)
      : pools_(std::move(pools)), events_(std::move(events)) {}

  const std::vector<std::unique_ptr<ServedPool>>& all() const { return pools_; }
  // The source of all pages.
  const PageSource& pages() const { return pools_.front()->registry().pages(); }

  // The pool of this name, or all for an empty one. NOT_FOUND lists the names.
  absl::StatusOr<std::vector<ServedPool*>> Named(const std::string& name) const;
  // The bytes that all other pools take, as TakenBy says.
  std::map<std::string, uint64_t> Beside(const std::string& name) const;

  // As the functions of WorkerRegistry. With several pools a worker must name one.
  absl::StatusOr<v1::AttachResponse> Attach(const v1::AttachRequest& request,
                                            const std::string& peer);
  absl::StatusOr<ExportGrant> RedeemExportToken(absl::string_view token, ExportPeer peer);
  absl::StatusOr<PoolSession> BeginSession(const v1::SessionHello& hello,
                                           const std::function<void()>& cancel);

  // The worker of this name. NOT_FOUND names the field.
  absl::StatusOr<PoolWorker> FindWorker(const std::string& worker_id) const;
  // The answer of `ask(served, pool)`, a StatusOr, for the pool that has the sequence. `ask`
  // answers NOT_FOUND in the others.
  template <typename Ask>
  auto OfSequence(SequenceId id, Ask ask) const
      -> decltype(ask(std::declval<ServedPool&>(), std::declval<const Pool&>())) {
    absl::Status unknown = absl::NotFoundError(
        absl::StrCat("sequence ", id.value(), " is not open: no worker has attached"));
    for (const auto& served : pools_) {
      const std::shared_ptr<const Pool> pool = served->registry().pool();
      if (pool == nullptr) continue;
      auto answer = ask(*served, *pool);
      if (!absl::IsNotFound(answer.status())) return answer;
      unknown = answer.status();
    }
    return unknown;
  }

  // All pools have the same.
  Drains& drains() const { return pools_.front()->registry().drains(); }
  uint32_t RunningSequences() const;
  uint32_t SequencesToAwait() const;

 private:
  friend class Server;
  // One for each pool, or an empty list without a state directory.
  std::vector<ManagerJournal*> journals() const;
  // The quotas that operators of the managers before this one set, of which each journal tells.
  cache::QuotasByTenant QuotasBefore() const;
  // The pool that a worker asks for. NOT_FOUND and INVALID_ARGUMENT list the names.
  absl::StatusOr<ServedPool*> Joined(const v1::AttachRequest& request) const;
  std::string Names() const;

  const std::vector<std::unique_ptr<ServedPool>> pools_;
  const PoolEvents events_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_SERVED_POOLS_H_
