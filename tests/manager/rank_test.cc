// Workers of several tensor-parallel ranks: page memory for each, one board, a process each, and
// pages that come back when the last of them has ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "services/base/clock.h"
#include "services/base/protocol.h"
#include "services/cache/inspector.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/worker_registry.h"
#include "tests/manager/child_process.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

using ::testing::HasSubstr;

// Three KV heads; their pages are 512 bytes a head.
v1::ModelLayout RankLayout(const std::vector<uint32_t>& rank_kv_heads) {
  v1::ModelLayout layout = SmallLayout();
  layout.set_num_kv_heads(3);
  for (const uint32_t heads : rank_kv_heads) layout.add_rank_kv_heads(heads);
  return layout;
}

size_t SizeOf(int fd) {
  struct stat info = {};
  EXPECT_EQ(fstat(fd, &info), 0);
  return static_cast<size_t>(info.st_size);
}

TEST(Ranks, EachHasPagesOfItsOwnHeadsAndAllHaveOneBoard) {
  ManagerHarness harness({.pool_bytes = 60 * 1024});  // 30 pages of 4 heads
  TestWorker worker(harness.address());
  const auto attached = worker.Attach(RankLayout({2, 1, 1}));
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_EQ(attached->pool().num_pages(), 30u);
  EXPECT_EQ(attached->pool().page_bytes(), 2048u);
  EXPECT_EQ(attached->pool().pool_bytes(), 30u * 2048);
  ASSERT_EQ(attached->rank_export_tokens_size(), 2);
  std::vector<PoolDescriptors> ranks;
  std::vector<std::string> tokens = {attached->export_token()};
  for (const std::string& token : attached->rank_export_tokens()) tokens.push_back(token);
  for (const std::string& token : tokens) {
    // Only once all ranks have theirs.
    EXPECT_TRUE(absl::IsFailedPrecondition(worker.Begin()));
    auto fetched = FetchPoolDescriptors(attached->export_socket(), token);
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    ranks.push_back(*std::move(fetched));
    EXPECT_FALSE(FetchPoolDescriptors(attached->export_socket(), token).ok());
  }
  EXPECT_EQ(SizeOf(ranks[0].pool.get()), 30u * 1024);
  EXPECT_EQ(SizeOf(ranks[1].pool.get()), 30u * 512);
  EXPECT_EQ(SizeOf(ranks[2].pool.get()), 30u * 512);
  // The first two ranks' second pages are not the same memory, their boards are.
  const auto value = [](int fd, off_t at) {
    uint32_t read = 0;
    EXPECT_EQ(pread(fd, &read, sizeof(read), at), static_cast<ssize_t>(sizeof(read)));
    return read;
  };
  const uint32_t mark = 42;
  EXPECT_EQ(pwrite(ranks[1].pool.get(), &mark, sizeof(mark), 512), 4);
  EXPECT_EQ(value(ranks[2].pool.get(), 512), 0u);
  EXPECT_EQ(pwrite(ranks[1].score_board.get(), &mark, sizeof(mark), 8), 4);
  EXPECT_EQ(value(ranks[0].score_board.get(), 8), mark);
  EXPECT_TRUE(worker.Begin().ok());
  EXPECT_EQ(harness.PoolState().page_bytes(), 2048u);
}

TEST(Ranks, OthersCutsAreRefused) {
  ManagerHarness harness;
  TestWorker first(harness.address());
  ASSERT_TRUE(first.Attach(RankLayout({2, 1})).ok());
  ASSERT_TRUE(first.Fetch().ok());
  TestWorker alone(harness.address());
  EXPECT_THAT(std::string(alone.Attach(RankLayout({})).status().message()),
              HasSubstr("layout.rank_kv_heads: the pool has \"2,1\", the worker \"\""));
  for (const auto& bad : {std::vector<uint32_t>{4, 1}, {0, 3}, std::vector<uint32_t>(65, 1)}) {
    ManagerHarness fresh;
    TestWorker worker(fresh.address());
    const absl::Status refused = worker.Attach(RankLayout(bad)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("layout.rank_kv_heads: "));
  }
}

// Two ranks in processes of their own, a session and a sequence.
class RankDeathTest : public ::testing::Test {
 protected:
  RankDeathTest() {
    request_.set_protocol_version(kProtocolVersion);
    *request_.mutable_layout() = SmallLayout();
    request_.mutable_layout()->add_rank_kv_heads(1);
    request_.mutable_layout()->add_rank_kv_heads(1);
    const v1::AttachResponse attached = *registry_.Attach(request_);
    Redeem(attached.export_token());
    Redeem(attached.rank_export_tokens(0));
    v1::SessionHello hello;
    hello.set_worker_id(attached.worker_id());
    hello.set_session_token(attached.session_token());
    request_.mutable_previous_session()->set_worker_id(attached.worker_id());
    request_.mutable_previous_session()->set_session_token(attached.session_token());
    worker_ = registry_.BeginSession(hello, [this] { cancelled_ = true; })->worker;
    cache::OpenRequest open;
    open.worker = worker_;
    open.prompt = {TokenId(1), TokenId(2)};
    open.max_new_tokens = TokenCount(4);
    EXPECT_TRUE(registry_.pool()->coordinator().Open(open).ok());
    held_ = pool().held.value();
    EXPECT_GT(held_, 0u);
  }
  ~RankDeathTest() override { registry_.EndSession(worker_); }

  cache::PoolInfo pool() const { return cache::Inspector(registry_.pool()->coordinator()).pool(); }
  uint32_t quarantined() const { return pool().quarantined.value(); }
  void Redeem(const std::string& token) {
    ranks_.push_back(std::make_unique<ChildProcess>(std::vector<std::string>{"/bin/sleep", "60"}));
    const pid_t pid = ranks_.back()->pid();
    UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    EXPECT_TRUE(registry_.RedeemExportToken(token, {pid, std::move(pidfd), UniqueFd()}).ok());
  }
  // One rank is killed; the pages wait for the other one, which could still write.
  void ExpectPagesWaitForBoth(size_t first, size_t last) {
    ranks_[first].reset();
    ASSERT_TRUE(Eventually([&] { return quarantined() == held_; }));
    EXPECT_TRUE(Eventually([&] { return cancelled_.load(); }));
    absl::SleepFor(absl::Milliseconds(100));
    EXPECT_EQ(quarantined(), held_);
    ranks_[last].reset();
    EXPECT_TRUE(Eventually([&] { return pool().free == pool().total; }));
    EXPECT_TRUE(pool().workers.empty());
    EXPECT_EQ(cache::Inspector(registry_.pool()->coordinator()).CheckInvariants(),
              absl::OkStatus());
  }

  const RealClock clock_;
  const manager::HostMemory memory_;
  std::atomic<bool> cancelled_ = false;
  manager::WorkerRegistry registry_{{.pages = &memory_,
                                     .pool_size = {.bytes = 128 * kSmallPageBytes},
                                     .rules = {.lease_ttl = absl::Seconds(60)},
                                     .export_socket = "none",
                                     .clock = &clock_}};
  v1::AttachRequest request_;  // for the next time
  WorkerId worker_;
  uint32_t held_ = 0;
  std::vector<std::unique_ptr<ChildProcess>> ranks_;
};

TEST_F(RankDeathTest, PagesWaitForTheLeader) {
  EXPECT_EQ(PidOf(registry_, worker_), ranks_[0]->pid());
  ExpectPagesWaitForBoth(1, 0);
}

TEST_F(RankDeathTest, PagesWaitForTheOthers) { ExpectPagesWaitForBoth(0, 1); }

TEST_F(RankDeathTest, PagesWaitForBothAfterTheSession) {
  registry_.EndSession(worker_);
  cancelled_ = true;  // nobody calls it any more
  ExpectPagesWaitForBoth(1, 0);
}

// The leader names the session after all ranks have unmapped its pages.
TEST_F(RankDeathTest, PagesReturnWhenTheRanksAttachAgain) {
  registry_.EndSession(worker_);
  EXPECT_EQ(quarantined(), held_);
  ASSERT_TRUE(registry_.Attach(request_).ok());
  EXPECT_EQ(quarantined(), 0u);
  EXPECT_EQ(pool().free, pool().total);
  EXPECT_EQ(PidOf(registry_, worker_), 0);  // it is forgotten
}

}  // namespace
}  // namespace folio::testing
