// Random messages with random descriptors to the manager's export socket: none of them gets the
// pool, none leaves a descriptor behind, and the worker with the token is served afterwards.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/runtime/logging.h"
#include "services/runtime/unix_socket.h"
#include "tests/manager/manager_harness.h"
#include "tests/testing/random_damage.h"

namespace folio::testing {
namespace {

size_t OpenDescriptors() {
  using Entries = std::filesystem::directory_iterator;
  return static_cast<size_t>(std::distance(Entries("/proc/self/fd"), Entries()));
}

// Descriptors to send: of pipes, of memory, of sockets that nobody and that somebody listens on.
std::vector<UniqueFd> Wares() {
  std::vector<UniqueFd> wares;
  std::array<int, 2> ends = {-1, -1};
  EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  wares.emplace_back(ends[0]);
  wares.emplace_back(ends[1]);
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  wares.emplace_back(ends[0]);
  wares.emplace_back(ends[1]);
  wares.emplace_back(memfd_create("ware", MFD_CLOEXEC));
  wares.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return wares;
}

class ExportDamageTest : public ::testing::Test {
 protected:
  ExportDamageTest() { log::Configure(log::Format::kText, log::Level::kError); }
  ~ExportDamageTest() override { log::Configure(log::Format::kText, log::Level::kInfo); }

  std::string Text(const std::string& token) {
    switch (random_.Below(5)) {
      case 0:
        return token;
      case 1:
        return "";
      case 2:
        return random_.Bytes(random_.Below(300));
      default:
        return random_.Damage(token, token);
    }
  }

  // With up to 8 descriptors, rarely with as many as the kernel lets through.
  std::vector<int> Descriptors(int own) {
    std::vector<int> fds;
    for (uint64_t i = random_.OneIn(100) ? 253 : random_.Below(9); i > 0; --i) {
      fds.push_back(random_.OneIn(8) ? own : random_.AnyOf(wares_).get());
    }
    return fds;
  }

  // One caller. The right token comes with a descriptor too many, so that it is not used up.
  void Call(const std::string& path, const std::string& token) {
    auto socket = ConnectUnix(path);
    ASSERT_TRUE(socket.ok()) << socket.status();
    const uint64_t messages = random_.OneIn(10) ? random_.Below(4) : 1;
    for (uint64_t i = 0; i < messages; ++i) {
      const std::string text = Text(token);
      std::vector<int> fds = Descriptors(socket->get());
      if (text == token && fds.empty()) fds.push_back(socket->get());
      // The manager may have refused the caller after its first message.
      const absl::Status sent = SendMessage(socket->get(), text, fds);
      ASSERT_TRUE(sent.ok() || i > 0) << sent;
    }
    if (random_.OneIn(4)) shutdown(socket->get(), SHUT_WR);
    // A caller that waits for an answer has asked. The others hang up, with and without a word.
    if (messages == 0 || random_.OneIn(2)) return;
    const auto answer = ReceiveMessage(socket->get(), absl::Seconds(20));
    if (messages > 1 && absl::IsUnavailable(answer.status())) return;  // closed with words unread
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(answer->fds.empty());
    EXPECT_NE(answer->text, "");
    ++refused_;
  }

  RandomDamage random_;
  const std::vector<UniqueFd> wares_ = Wares();
  ManagerHarness harness_;
  int refused_ = 0;
};

TEST_F(ExportDamageTest, NoMessageTakesThePoolOrADescriptor) {
  SCOPED_TRACE(random_.repeat());
  TestWorker worker(harness_.address());
  ASSERT_TRUE(worker.Attach().ok());
  ASSERT_EQ(harness_.PoolState().workers_size(), 1);
  const size_t before = OpenDescriptors();
  const int rounds = RandomDamage::Rounds(10'000);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    ASSERT_NO_FATAL_FAILURE(Call(harness_.export_socket(), worker.attached().export_token()));
  }
  EXPECT_GT(refused_, rounds / 4);
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() == before; }))
      << before << " descriptors before, " << OpenDescriptors() << " after";
  ASSERT_EQ(worker.Fetch(), absl::OkStatus());
  ASSERT_EQ(worker.Begin(), absl::OkStatus());
  EXPECT_TRUE(worker.Open(SmallOpen(40, 8)).ok());
}

}  // namespace
}  // namespace folio::testing
