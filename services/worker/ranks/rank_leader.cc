#include "services/worker/ranks/rank_leader.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/steady_time.h"

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

// Sends a message, and waits until all ranks have done what it says.
absl::Status TellRanks(collective::Collective& host, std::string message) {
  absl::Status status = host.Broadcast(message, SteadyNow() + kRankTimeout);
  if (status.ok()) status = Barrier(host);
  if (status.ok()) return status;
  return absl::InternalError(absl::StrCat("the tensor-parallel group failed: ", status.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankLeader>> RankLeader::Start(const GroupOptions& options,
                                                              int threads) {
  std::unique_ptr<RankLeader> leader(new RankLeader());
  leader->timeout_ = options.timeout;
  std::string path = options.socket;
  if (path.empty()) {
    auto directory = NewDirectory();
    if (!directory.ok()) return directory.status();
    leader->directory_ = *directory;
    path = absl::StrCat(*directory, "/group.sock");
  }
  auto socket = collective::GroupSocket::Listen(path, options.self.ranks);
  if (!socket.ok()) return socket.status();
  leader->socket_.emplace(*std::move(socket));
  if (options.socket.empty()) {
    auto spawned = SpawnedRanks::Start(options.self.ranks, path, threads);
    if (!spawned.ok()) return spawned.status();
    leader->spawned_.emplace(*std::move(spawned));
  }
  return leader;
}

RankLeader::~RankLeader() {
  if (host_ != nullptr) {
    // An empty message ends the others' loops. A rank that misses it notices the end of the group.
    std::string nothing;
    (void)host_->Broadcast(nothing, SteadyNow() + absl::Seconds(1));
  } else if (spawned_.has_value()) {
    spawned_->Kill();
  }
  group_ = {};
  host_.reset();
  socket_.reset();
  if (!directory_.empty()) rmdir(directory_.c_str());
}

absl::Status RankLeader::InitGroup(const LoadedModel& model, uint32_t max_rows,
                                   const std::function<bool()>& stop) {
  auto host = socket_->AcceptRanks(timeout_, [&] {
    if (stop()) return absl::CancelledError("told to end");
    return spawned_.has_value() ? spawned_->Check() : absl::OkStatus();
  });
  if (!host.ok()) return host.status();
  host_ = *std::move(host);
  socket_.reset();
  auto group = worker::InitGroup(*host_, model, max_rows);
  if (!group.ok()) return group.status();
  group_ = *std::move(group);
  return absl::OkStatus();
}

absl::Status AwaitUnmapped(collective::Collective& host) {
  return TellRanks(host, std::string(kAskUnmapped));
}

absl::Status DropHeldPools(collective::Collective& host) {
  return TellRanks(host, std::string(kDropHeld));
}

absl::Status AttachRanks(collective::Collective& host, const folio::v1::AttachResponse& answer) {
  return TellRanks(host, answer.SerializeAsString());
}

}  // namespace folio::worker
