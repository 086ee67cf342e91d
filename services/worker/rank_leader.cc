#include "services/worker/rank_leader.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/logging.h"
#include "services/worker/rank_life.h"

namespace folio::worker {
namespace {

absl::StatusOr<std::string> NewDirectory() {
  const char* base = std::getenv("TMPDIR");
  std::string path = absl::StrCat(base != nullptr && *base == '/' ? base : "/tmp", "/folio-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make a directory like ", path));
  }
  return path;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankLeader>> RankLeader::Start(const RankOptions& options,
                                                              int threads) {
  std::unique_ptr<RankLeader> leader(new RankLeader());
  leader->timeout_ = options.timeout;
  std::string path = options.group;
  if (path.empty()) {
    auto directory = NewDirectory();
    if (!directory.ok()) return directory.status();
    leader->directory_ = *directory;
    path = absl::StrCat(*directory, "/group.sock");
  }
  auto socket = collective::GroupSocket::Listen(path, options.of.ranks);
  if (!socket.ok()) return socket.status();
  leader->socket_.emplace(*std::move(socket));
  if (options.group.empty()) {
    auto spawned = SpawnedRanks::Start(options.of.ranks, path, threads);
    if (!spawned.ok()) return spawned.status();
    leader->spawned_.emplace(*std::move(spawned));
  }
  return leader;
}

RankLeader::~RankLeader() {
  if (host_ != nullptr) TellRanksToEnd(*host_);
  if (host_ == nullptr && spawned_.has_value()) spawned_->Kill();
  group_ = {};
  host_.reset();
  socket_.reset();
  if (!directory_.empty()) rmdir(directory_.c_str());
}

absl::Status RankLeader::Meet(const LoadedModel& model, uint32_t max_rows,
                              const std::function<bool()>& stop) {
  auto host = socket_->Lead(timeout_, [&] {
    if (stop()) return absl::CancelledError("told to end");
    return spawned_.has_value() ? spawned_->Check() : absl::OkStatus();
  });
  if (!host.ok()) return host.status();
  host_ = *std::move(host);
  socket_.reset();
  auto group = MeetRanks(*host_, model, max_rows);
  if (!group.ok()) return group.status();
  group_ = *std::move(group);
  return absl::OkStatus();
}

absl::Status EndWithLeader(const RankOptions& options) {
  if (options.leader_pid == 0) return absl::OkStatus();
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return absl::ErrnoToStatus(errno, "PR_SET_PDEATHSIG");
  // It may have ended before we asked.
  if (getppid() == options.leader_pid) return absl::OkStatus();
  return absl::UnavailableError("the leader has gone");
}

absl::Status RunRank(const RankOptions& options, const LoadedModel& model, uint32_t max_rows,
                     const std::function<void()>& joined) {
  const auto host =
      collective::JoinGroup(options.group, options.of.rank, options.of.ranks, options.timeout);
  if (!host.ok()) return host.status();
  joined();
  log::Info("rank joined", {{"rank", options.of.rank.value()}, {"ranks", options.of.ranks}});
  const auto group = MeetRanks(**host, model, max_rows);
  if (!group.ok()) return group.status();
  return LiveAsRank(*group, model, max_rows);
}

}  // namespace folio::worker
