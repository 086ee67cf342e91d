#include "services/worker/ranks/rank_follower.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "services/base/steady_time.h"
#include "services/collective/group.h"
#include "services/model/tp/rank_follower.h"
#include "services/runtime/logging.h"
#include "services/worker/pool/pool_attachment.h"

namespace folio::worker {
namespace {

// Follows one attachment of the leader, from the manager's answer to the end of the leader's
// executor.
absl::Status FollowAttachment(const RankGroup& group, const LoadedModel& model, uint32_t max_rows,
                              const std::string& answer, HeldPool& held,
                              const std::function<void(bool)>& busy) {
  folio::v1::AttachResponse response;
  if (!response.ParseFromString(answer)) {
    return absl::InternalError("the leader's answer from the manager cannot be read");
  }
  auto attachment = PoolAttachment::Fetch(response, model.pool_user(), &held);
  if (!attachment.ok()) return attachment.status();
  auto executor = model.MakeExecutor((*attachment)->view(), max_rows, &group);
  if (!executor.ok()) return executor.status();
  if (absl::Status status = Barrier(*group.host); !status.ok()) return status;
  log::Info("following the leader", {{"rank", group.host->rank().value()},
                                     {"worker", response.worker_id()},
                                     {"pages", response.pool().num_pages()}});
  absl::Status status = model::RunRankFollower(**executor, *group.host, busy);
  busy(true);  // the end of the executor waits for the device
  executor->reset();
  held = PoolAttachment::End(*std::move(attachment));
  return status;
}

}  // namespace

absl::Status EndWithLeader(const GroupOptions& options) {
  if (options.leader_pid == 0) return absl::OkStatus();
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return absl::ErrnoToStatus(errno, "PR_SET_PDEATHSIG");
  // The leader may have ended before the call above; then this process has another parent now.
  if (getppid() == options.leader_pid) return absl::OkStatus();
  return absl::UnavailableError("the leader has ended");
}

absl::Status RunFollower(const GroupOptions& options, const LoadedModel& model, uint32_t max_rows,
                         const std::function<void()>& joined,
                         const std::function<void(bool)>& busy) {
  const TpRank& self = options.self;
  const auto host = collective::JoinGroup(options.socket, self.rank, self.ranks, options.timeout);
  if (!host.ok()) return host.status();
  joined();
  log::Info("rank joined", {{"rank", self.rank.value()}, {"ranks", self.ranks}});
  const auto group = InitGroup(**host, model, max_rows);
  if (!group.ok()) return group.status();
  HeldPool held;
  for (;;) {
    // The leader sends the manager's answer of each attachment, asks before the next one if the
    // pages of the last one are unmapped, which they are here, and sends an empty message at the
    // end.
    std::string answer;
    absl::Status status = (*host)->Broadcast(answer, SteadyTime::InfiniteFuture());
    if (!status.ok() || answer.empty()) return status;
    if (answer == kDropHeld) held = {};
    status = answer == kAskUnmapped || answer == kDropHeld
                 ? Barrier(**host)
                 : FollowAttachment(*group, model, max_rows, answer, held, busy);
    busy(false);
    if (!status.ok()) return AbortGroup(**host, status);
  }
}

}  // namespace folio::worker
