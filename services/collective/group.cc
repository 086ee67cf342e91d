#include "services/collective/group.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "services/base/check.h"
#include "services/base/steady_time.h"
#include "services/collective/shared_collective.h"
#include "services/runtime/refusal_text.h"
#include "services/runtime/unix_socket.h"

namespace folio::collective {
namespace {

// A rank sends "<greeting> <rank> <ranks>". The answer is the greeting with the memory, or
// a refusal (see RefusalText).
constexpr absl::string_view kGreeting = "folio-group-1";
constexpr absl::Duration kHelloTimeout = absl::Seconds(2);
constexpr absl::Duration kRetry = absl::Milliseconds(20);

absl::StatusOr<Rank> ReadHello(absl::string_view text, uint32_t ranks,
                               const std::vector<Peer>& present) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  uint32_t rank = 0, theirs = 0;
  if (words.size() != 3 || words[0] != kGreeting || !absl::SimpleAtoi(words[1], &rank) ||
      !absl::SimpleAtoi(words[2], &theirs)) {
    return absl::InvalidArgumentError("this is where the ranks of a tensor-parallel group meet");
  }
  if (theirs != ranks) {
    return absl::FailedPreconditionError(
        absl::StrCat("ranks: the leader has ", ranks, ", rank ", rank, " has ", theirs));
  }
  if (rank == 0 || rank >= ranks) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank: ", rank, " is not from 1 to ", ranks - 1));
  }
  for (const Peer& peer : present) {
    if (peer.rank != Rank(rank)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("rank: ", rank, " has been taken by process ", peer.pid));
  }
  return Rank(rank);
}

// Accepts one caller, or tells it why it is refused.
void Meet(UniqueFd connection, uint32_t ranks, std::vector<Peer>& present) {
  auto hello = ReceiveMessage(connection.get(), kHelloTimeout, 256, 0);
  if (!hello.ok()) return;
  auto credentials = GetPeerCredentials(connection.get());
  const auto rank = ReadHello(hello->text, ranks, present);
  if (rank.ok()) {
    present.push_back({*rank, credentials.ok() ? credentials->pid : 0, std::move(connection)});
    return;
  }
  (void)SendMessage(connection.get(), RefusalText(rank.status()));
}

absl::Status Missing(uint32_t ranks, const std::vector<Peer>& present) {
  std::vector<uint32_t> missing;
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    const auto is = [rank](const Peer& peer) { return peer.rank == Rank(rank); };
    if (std::none_of(present.begin(), present.end(), is)) missing.push_back(rank);
  }
  return absl::DeadlineExceededError(
      absl::StrCat("of ", ranks, " ranks, these have not joined: ", absl::StrJoin(missing, ", ")));
}

// Drops the ranks that left while the others came.
void DropClosed(std::vector<Peer>& present) {
  std::erase_if(present, [](const Peer& peer) {
    pollfd polled = {peer.socket.get(), POLLIN | POLLRDHUP, 0};
    return poll(&polled, 1, 0) > 0;
  });
}

}  // namespace

absl::StatusOr<GroupSocket> GroupSocket::Listen(const std::string& path, uint32_t ranks) {
  if (ranks < 2 || ranks > kMaxRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks: ", ranks, " is not from 2 to ", kMaxRanks));
  }
  auto listening = ListenUnix(path);
  if (!listening.ok()) return listening.status();
  return GroupSocket(path, ranks, *std::move(listening));
}

GroupSocket::GroupSocket(std::string path, uint32_t ranks, UniqueFd listening)
    : path_(std::move(path)), ranks_(ranks), listening_(std::move(listening)) {}

GroupSocket::GroupSocket(GroupSocket&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      ranks_(other.ranks_),
      listening_(std::move(other.listening_)) {}

GroupSocket::~GroupSocket() {
  if (!path_.empty()) unlink(path_.c_str());
}

absl::StatusOr<std::unique_ptr<Collective>> GroupSocket::AcceptRanks(
    absl::Duration timeout, const std::function<absl::Status()>& check, size_t buffer_bytes) {
  const SteadyTime deadline = SteadyNow() + timeout;
  std::vector<Peer> present;
  while (present.size() + 1 < ranks_) {
    pollfd polled = {listening_.get(), POLLIN, 0};
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration()) return Missing(ranks_, present);
    if (absl::Status status = check ? check() : absl::OkStatus(); !status.ok()) return status;
    const auto slice = std::min(left, absl::Milliseconds(100));
    if (poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(slice)) + 1) > 0) {
      UniqueFd connection(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (connection.valid()) Meet(std::move(connection), ranks_, present);
    }
    DropClosed(present);
  }
  auto memory = SharedSegment::Create(ranks_, buffer_bytes);
  if (!memory.ok()) return memory.status();
  for (const Peer& peer : present) {
    const int fd = memory->get();
    if (absl::Status status = SendMessage(peer.socket.get(), kGreeting, {&fd, 1}); !status.ok()) {
      return absl::UnavailableError(absl::StrCat("rank ", peer.rank.value(), " (process ", peer.pid,
                                                 ") has gone before the group was complete"));
    }
  }
  auto segment = SharedSegment::Map(memory->get(), ranks_);
  if (!segment.ok()) return segment.status();
  return std::make_unique<SharedCollective>(Rank(0), ranks_, *std::move(segment),
                                            std::move(present));
}

absl::StatusOr<std::unique_ptr<Collective>> JoinGroup(const std::string& path, Rank rank,
                                                      uint32_t ranks, absl::Duration timeout) {
  const SteadyTime deadline = SteadyNow() + timeout;
  auto socket = ConnectUnix(path);
  while (absl::IsUnavailable(socket.status())) {
    if (SteadyNow() + kRetry > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("no leader of the group: ", socket.status().message()));
    }
    absl::SleepFor(kRetry);
    socket = ConnectUnix(path);
  }
  if (!socket.ok()) return socket.status();
  const std::string hello = absl::StrCat(kGreeting, " ", rank.value(), " ", ranks);
  if (absl::Status status = SendMessage(socket->get(), hello); !status.ok()) return status;
  auto answer = ReceiveMessage(socket->get(), deadline - SteadyNow(), kMaxRefusalBytes, 1);
  if (!answer.ok()) {
    if (!absl::IsDeadlineExceeded(answer.status())) return answer.status();
    return absl::DeadlineExceededError("the group was not complete in time");
  }
  if (answer->text != kGreeting || answer->fds.size() != 1) {
    return ParseRefusal(answer->text)
        .value_or(absl::UnavailableError("the leader has gone before the group was complete"));
  }
  auto segment = SharedSegment::Map(answer->fds[0].get(), ranks);
  if (!segment.ok()) return segment.status();
  auto leader = GetPeerCredentials(socket->get());
  std::vector<Peer> peers;
  peers.push_back({Rank(0), leader.ok() ? leader->pid : 0, *std::move(socket)});
  return std::make_unique<SharedCollective>(rank, ranks, *std::move(segment), std::move(peers));
}

}  // namespace folio::collective
