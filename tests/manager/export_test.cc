// The pool's memory and how it reaches workers.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "services/manager/export_socket.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/memory/machine_memory.h"
#include "services/manager/pool_export.h"
#include "services/runtime/unix_socket.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

using ::testing::HasSubstr;

size_t SizeOf(int fd) {
  struct stat info = {};
  EXPECT_EQ(fstat(fd, &info), 0);
  return info.st_size;
}

void ExpectUnchangeableSize(int fd) {
  const auto size = static_cast<off_t>(SizeOf(fd));
  EXPECT_EQ(ftruncate(fd, size - 1), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(fd, size + 1), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(fd, 0), -1);
  // Nobody can add a seal against writing either.
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

TEST(PoolExport, IsExactlyAsLargeAsItsPagesAndStaysSo) {
  CacheGeometry geometry;
  geometry.num_layers = 30;
  geometry.num_kv_heads = 3;
  geometry.head_dim = 64;
  geometry.page_tokens = 16;
  auto memory = manager::PoolExport::Create(manager::HostMemory(), geometry, PageCount(100));
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->pool_bytes(), 100U * 12288U);
  EXPECT_EQ(SizeOf(memory->pool_fd()), 100U * 12288U);
  EXPECT_EQ(SizeOf(memory->score_board_fd()), 2U * 100U * 16U * 3U * sizeof(float));
  ExpectUnchangeableSize(memory->pool_fd());
  ExpectUnchangeableSize(memory->score_board_fd());
}

TEST(PoolExport, HugePagesNeverChangeTheSize) {
  CacheGeometry geometry;
  geometry.num_layers = 1;
  geometry.num_kv_heads = 8;
  geometry.head_dim = 128;
  geometry.page_tokens = 16;  // 64 KiB a page: 64 of them are a multiple of any huge page
  auto memory = manager::PoolExport::Create(manager::HostMemory(), geometry, PageCount(64));
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(SizeOf(memory->pool_fd()), 64U * 65536U);
  EXPECT_THAT((std::vector<std::string>{"none", "transparent", "reserved"}),
              ::testing::Contains(std::string(manager::HugePagesName(memory->huge_pages()))));
  ExpectUnchangeableSize(memory->pool_fd());
}

// Bytes that the machine has given to the file.
size_t TakenOf(int fd) {
  struct stat info = {};
  EXPECT_EQ(fstat(fd, &info), 0);
  return static_cast<size_t>(info.st_blocks) * 512;
}

TEST(PoolExport, TakesItsMemoryAtOnceIfAsked) {
  CacheGeometry geometry;
  geometry.num_layers = 1;
  geometry.num_kv_heads = 8;
  geometry.head_dim = 128;
  geometry.page_tokens = 16;  // 64 KiB a page
  const PageCount pages(513);
  auto lazy = manager::PoolExport::Create(manager::HostMemory(), geometry, pages);
  ASSERT_TRUE(lazy.ok()) << lazy.status();
  EXPECT_EQ(TakenOf(lazy->pool_fd()), 0U);
  EXPECT_EQ(TakenOf(lazy->score_board_fd()), 0U);
  auto whole = manager::PoolExport::Create(manager::HostMemory(true), geometry, pages);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_GE(TakenOf(whole->pool_fd()), whole->pool_bytes());
  EXPECT_GE(TakenOf(whole->score_board_fd()), whole->score_board_bytes());
  EXPECT_EQ(whole->score_board()[whole->score_board_bytes() / sizeof(float) - 1], 0.0F);
}

TEST(HostMemory, WarnsOfASizeAboveTheFreeMemoryAndRefusesItWithPrefault) {
  // More than the machine has free, and not more than it has. Only the check is run.
  const manager::MachineMemory machine = manager::ReadMachineMemory();
  if (machine.huge_page_bytes != 0) GTEST_SKIP() << "reserved huge pages may hold any size";
  const manager::PoolSize size = {.bytes = machine.total};
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(manager::HostMemory(false).CheckSize(size).ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the pool is larger than the memory that is free"));
  const absl::Status refused = manager::HostMemory(true).CheckSize(size);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--prefault takes all at once; give less"));
}

TEST(Export, HandsOutTheMemoryTheManagerReads) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  ASSERT_TRUE(worker.Attach().ok());
  ASSERT_TRUE(worker.Fetch().ok());
  const int board = worker.descriptors().score_board.get();
  EXPECT_EQ(SizeOf(worker.descriptors().pool.get()), 128 * kSmallPageBytes);
  ExpectUnchangeableSize(worker.descriptors().pool.get());
  ExpectUnchangeableSize(board);
  void* map = mmap(nullptr, SizeOf(board), PROT_READ | PROT_WRITE, MAP_SHARED, board, 0);
  ASSERT_NE(map, MAP_FAILED);
  static_cast<float*>(map)[5 * 16 + 3] = 0.75F;
  EXPECT_EQ(harness.server().registry().pool()->memory().score_board()[5 * 16 + 3], 0.75F);
  munmap(map, SizeOf(board));
  EXPECT_EQ(harness.PoolState().workers(0).pid(), getpid());
}

TEST(Export, ATokenServesOnceAndOnlyTheRightOne) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  ASSERT_TRUE(worker.Attach().ok());
  for (const std::string& wrong :
       {std::string("guess"), worker.attached().session_token(), std::string(200, '0')}) {
    auto refused = FetchPoolDescriptors(harness.export_socket(), wrong);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kNotFound) << wrong;
  }
  EXPECT_TRUE(worker.Fetch().ok());
  auto again = worker.Fetch();
  EXPECT_EQ(again.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(again.message()), HasSubstr("export token: unknown or used"));
}

TEST(Export, SurvivesCallersThatMisbehave) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  ASSERT_TRUE(worker.Attach().ok());
  { auto hangs_up = ConnectUnix(harness.export_socket()); }
  auto too_long = FetchPoolDescriptors(harness.export_socket(), std::string(5000, 'x'));
  EXPECT_EQ(too_long.status().code(), absl::StatusCode::kInvalidArgument);
  auto with_fd = ConnectUnix(harness.export_socket());
  ASSERT_TRUE(with_fd.ok());
  ASSERT_TRUE(SendMessage(with_fd->get(), worker.attached().export_token(), {with_fd->get()}).ok());
  auto answer = ReceiveMessage(with_fd->get(), absl::Seconds(20));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->fds.empty());
  // Silent for longer than it is waited for, while the right one queues behind.
  auto silent = ConnectUnix(harness.export_socket());
  ASSERT_TRUE(silent.ok());
  EXPECT_TRUE(worker.Fetch().ok());
}

TEST(Export, OnlyOurUserAndRootMayHaveThePool) {
  EXPECT_TRUE(manager::CheckPeerUser(1000, 1000).ok());
  EXPECT_TRUE(manager::CheckPeerUser(0, 1000).ok());
  auto refused = manager::CheckPeerUser(1001, 1000);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("user 1001 may not have the pool of user 1000"));
  EXPECT_FALSE(manager::CheckPeerUser(1000, 0).ok());
}

}  // namespace
}  // namespace folio::testing
