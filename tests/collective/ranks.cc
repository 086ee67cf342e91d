#include "tests/collective/ranks.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "services/base/check.h"
#include "services/collective/group.h"
#include "services/collective/shared_collective.h"
#include "tests/common/temp_dir.h"

namespace folio::collective::testing {
namespace {

constexpr absl::Duration kMeet = absl::Seconds(20);

std::string RunRank(const std::string& path, Rank rank, uint32_t ranks, size_t buffer_bytes,
                    const RankBody& body) {
  absl::StatusOr<std::unique_ptr<Collective>> group;
  if (rank == Rank(0)) {
    auto socket = GroupSocket::Listen(path, ranks);
    if (!socket.ok()) return socket.status().ToString();
    group = socket->AcceptRanks(kMeet, nullptr, buffer_bytes);
  } else {
    group = JoinGroup(path, rank, ranks, kMeet);
  }
  return group.ok() ? body(**group) : group.status().ToString();
}

// A group as AcceptRanks and JoinGroup make it, with one mapping for all ranks.
std::vector<std::unique_ptr<Collective>> OneMapping(uint32_t ranks, size_t buffer_bytes) {
  const auto memory = SharedSegment::Create(ranks, buffer_bytes);
  FOLIO_CHECK(memory.ok());
  const auto segment = SharedSegment::Map(memory->get(), ranks);
  FOLIO_CHECK(segment.ok());
  std::vector<std::unique_ptr<Collective>> group(ranks);
  std::vector<Peer> others;
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    int ends[2];
    FOLIO_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    others.push_back({Rank(rank), getpid(), UniqueFd(ends[0])});
    std::vector<Peer> leader;
    leader.push_back({Rank(0), getpid(), UniqueFd(ends[1])});
    group[rank] =
        std::make_unique<SharedCollective>(Rank(rank), ranks, *segment, std::move(leader));
  }
  group[0] = std::make_unique<SharedCollective>(Rank(0), ranks, *segment, std::move(others));
  return group;
}

// The child's words come through a pipe, so that they may be long.
struct Child {
  pid_t pid;
  int out;

  std::string End() const {
    std::string words;
    char part[512];
    for (ssize_t got; (got = read(out, part, sizeof(part))) > 0;) words.append(part, got);
    close(out);
    int status = 0;
    FOLIO_CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGKILL ? kKilled : "crashed";
    return words;
  }
};

}  // namespace

std::vector<std::string> RunRanks(RanksAre kind, uint32_t ranks, size_t buffer_bytes,
                                  const RankBody& body) {
  const folio::testing::TempDir directory;
  const std::string path = directory / "group";
  std::vector<std::string> said(ranks);
  if (kind != RanksAre::kProcesses) {
    std::vector<std::unique_ptr<Collective>> group(ranks);
    if (kind == RanksAre::kThreadsOfOneMapping) group = OneMapping(ranks, buffer_bytes);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank, mine = std::move(group[rank])]() mutable {
        said[rank] =
            mine == nullptr ? RunRank(path, Rank(rank), ranks, buffer_bytes, body) : body(*mine);
        mine.reset();  // as its process would end
      });
    }
    for (std::thread& thread : threads) thread.join();
    return said;
  }
  std::vector<Child> children;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    int ends[2];
    FOLIO_CHECK(pipe(ends) == 0);
    const pid_t pid = fork();
    FOLIO_CHECK(pid >= 0);
    if (pid == 0) {
      close(ends[0]);
      const std::string words = RunRank(path, Rank(rank), ranks, buffer_bytes, body);
      FOLIO_CHECK(write(ends[1], words.data(), words.size()) == static_cast<ssize_t>(words.size()));
      _exit(0);
    }
    close(ends[1]);
    children.push_back({pid, ends[0]});
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) said[rank] = children[rank].End();
  return said;
}

std::string Die(RanksAre kind) {
  if (kind == RanksAre::kProcesses) raise(SIGKILL);
  return kKilled;
}

}  // namespace folio::collective::testing
