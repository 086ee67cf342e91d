// The program folio-manager with --device=cuda:N: pools that are made, handed out and freed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/manager/child_process.h"
#include "tests/manager/manager_gpu_harness.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr uint64_t kMiB = 1 << 20;
constexpr const char* kUuid0 = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f";
constexpr const char* kUuid1 = "GPU-00010203-0405-0607-0809-0a0b0c0d0e1f";

uint64_t SizeOf(int fd) {
  struct stat info = {};
  EXPECT_EQ(fstat(fd, &info), 0);
  return static_cast<uint64_t>(info.st_size);
}

TEST_F(ManagerGpu, MakesThePoolHandsItOutAndFreesIt) {
  ChildProcess manager(Command({{"--device=cuda:1", "--pool_bytes=5MiB"}}));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  EXPECT_THAT(manager.ReadUntil("folio-manager started"), HasSubstr("device=cuda:1"));
  EXPECT_EQ(CallsOf("cuMemCreate"), 0U);
  TestWorker worker(address());
  const auto described = worker.DescribePool();
  ASSERT_TRUE(described.ok()) << described.status();
  ASSERT_EQ(described->devices_size(), 1);
  EXPECT_EQ(described->devices(0).uuid(), kUuid1);
  EXPECT_EQ(described->devices(0).ranks_size(), 0);  // all ranks
  worker.ComputeOn(v1::DEVICE_KIND_CUDA);
  const auto attached = worker.Attach();
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_EQ(attached->pool().num_pages(), 5 * kMiB / kSmallPageBytes);
  EXPECT_EQ(attached->pool().pool_bytes(), 5 * kMiB);
  ASSERT_EQ(attached->pool().rank_memory_size(), 1);
  EXPECT_EQ(attached->pool().rank_memory(0).device_uuid(), kUuid1);
  EXPECT_EQ(attached->pool().rank_memory(0).bytes(), 6 * kMiB);
  ASSERT_TRUE(worker.Fetch().ok());
  EXPECT_EQ(SizeOf(worker.descriptors().pool.get()), 6 * kMiB);
  // The board is the host's, as ever.
  const int board = worker.descriptors().score_board.get();
  EXPECT_EQ(SizeOf(board), attached->pool().score_board_bytes());
  EXPECT_EQ(fcntl(board, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);

  ASSERT_TRUE(worker.Begin().ok());
  const auto opened = worker.Open(SmallOpen(64, 16));
  ASSERT_TRUE(opened.ok()) << opened.status();
  std::set<uint32_t> pages;
  for (const auto& layer : opened->layers())
    pages.insert(layer.pages().begin(), layer.pages().end());
  EXPECT_EQ(pages.size(), 10U);
  EXPECT_LT(*pages.rbegin(), attached->pool().num_pages());

  // Another worker gets the same memory.
  const uint32_t mark = 42;
  ASSERT_EQ(pwrite(worker.descriptors().pool.get(), &mark, sizeof(mark), 4 * kMiB), 4);
  TestWorker other(address());
  other.ComputeOn(v1::DEVICE_KIND_CUDA);
  other.Join();
  uint32_t read = 0;
  ASSERT_EQ(pread(other.descriptors().pool.get(), &read, sizeof(read), 4 * kMiB), 4);
  EXPECT_EQ(read, mark);

  manager.Signal(SIGTERM);
  ASSERT_NE(manager.ReadUntil("draining sequences=1"), "") << manager.output();
  manager.Signal(SIGTERM);
  EXPECT_EQ(manager.Wait(), 0) << manager.output();
  EXPECT_EQ(CallsOf("cuMemCreate"), 1U);
  EXPECT_EQ(CallsOf("cuMemExportToShareableHandle"), 1U);
  EXPECT_EQ(CallsOf("cuMemRelease"), 1U);
  EXPECT_EQ(CallsOf("nvmlInit_v2"), CallsOf("nvmlShutdown"));
  for (const char* never : {"cuCtx", "cuDevicePrimaryCtx", "cuMemMap", "cuMemAddress"}) {
    EXPECT_THAT(Calls(), Not(Contains(StartsWith(never))));
  }
}

TEST_F(ManagerGpu, EachRankHasItsDevice) {
  ChildProcess manager(Command({{"--device=cuda:1,cuda:0", "--pool_bytes=3MiB"}}));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  TestWorker worker(address());
  // Told before there is a pool.
  const auto described = worker.DescribePool();
  ASSERT_TRUE(described.ok()) << described.status();
  ASSERT_EQ(described->devices_size(), 2);
  EXPECT_EQ(described->devices(0).uuid(), kUuid1);
  EXPECT_EQ(described->devices(1).uuid(), kUuid0);
  EXPECT_THAT(described->devices(0).ranks(), ElementsAre(0));
  EXPECT_THAT(described->devices(1).ranks(), ElementsAre(1));
  EXPECT_FALSE(described->devices(0).name().empty());

  worker.ComputeOn(v1::DEVICE_KIND_CUDA);
  v1::ModelLayout layout = SmallLayout();
  layout.set_num_kv_heads(3);
  const auto alone = worker.Attach(layout).status();
  EXPECT_THAT(std::string(alone.message()),
              HasSubstr("names 2 devices and the worker has 1 ranks"));
  layout.add_rank_kv_heads(2);
  layout.add_rank_kv_heads(1);
  const auto attached = worker.Attach(layout);
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_EQ(attached->pool().num_pages(), 2048U);
  ASSERT_EQ(attached->pool().rank_memory_size(), 2);
  EXPECT_EQ(attached->pool().rank_memory(0).device_uuid(), kUuid1);
  EXPECT_EQ(attached->pool().rank_memory(1).device_uuid(), kUuid0);
  auto first = FetchPoolDescriptors(attached->export_socket(), attached->export_token());
  auto second = FetchPoolDescriptors(attached->export_socket(), attached->rank_export_tokens(0));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(SizeOf(first->pool.get()), 2 * kMiB);
  EXPECT_EQ(SizeOf(second->pool.get()), 2 * kMiB);  // 1 MiB of pages, rounded up
  EXPECT_EQ(CallsOf("cuMemCreate"), 2U);
}

TEST_F(ManagerGpu, AWorkerOnTheCpuIsTurnedAwayAndTakesNothing) {
  ChildProcess manager(Command({{"--device=cuda:0", "--pool_bytes=2MiB"}}));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  for (const v1::DeviceKind kind : {v1::DEVICE_KIND_CPU, v1::DEVICE_KIND_UNSPECIFIED}) {
    TestWorker worker(address());
    worker.ComputeOn(kind);
    const auto refused = worker.Attach().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("computes on the CPU"), HasSubstr("memory of cuda:0"),
                      HasSubstr("start the manager with --device=cpu")));
  }
  EXPECT_EQ(CallsOf("cuMemCreate"), 0U);
}

TEST_F(ManagerGpu, AWorkerOnAGpuIsTurnedAwayFromHostMemory) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  worker.ComputeOn(v1::DEVICE_KIND_CUDA);
  const auto refused = worker.Attach().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--device=cuda:N"));
}

TEST_F(ManagerGpu, AShareIsOfWhatIsFree) {
  ChildProcess manager(
      Command({{"--device=cuda:1", "--pool_bytes=50%"}, {"FAKE_GPU_BYTES=67108864"}}));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  EXPECT_THAT(manager.ReadUntil("folio-manager started"), HasSubstr("pool_bytes=50%"));
  TestWorker worker(address());
  worker.ComputeOn(v1::DEVICE_KIND_CUDA);
  const auto attached = worker.Attach();
  ASSERT_TRUE(attached.ok()) << attached.status();
  // Half of 63 MiB, less what rounding up may take.
  EXPECT_EQ(attached->pool().pool_bytes(), 63 * kMiB / 2 - 2 * kMiB);
  EXPECT_EQ(attached->pool().rank_memory(0).bytes(), 30 * kMiB);
}

TEST_F(ManagerGpu, FolioctlShowsDevices) {
  ChildProcess manager(Command({{"--device=cuda:0,cuda:1", "--pool_bytes=3MiB"}}));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  EXPECT_THAT(Folioctl({"pools"}), AllOf(HasSubstr("No pool"), HasSubstr("Fake H100"),
                                         HasSubstr(kUuid0), HasSubstr(kUuid1)));
  TestWorker worker(address());
  worker.ComputeOn(v1::DEVICE_KIND_CUDA);
  v1::ModelLayout layout = SmallLayout();
  layout.set_num_kv_heads(2);
  layout.add_rank_kv_heads(1);
  layout.add_rank_kv_heads(1);
  ASSERT_TRUE(worker.Attach(layout).ok());
  const std::string text = Folioctl({"pools"});
  EXPECT_THAT(text, HasSubstr("cuda:0,cuda:1"));
  // Name, UUID, ranks, total and free.
  EXPECT_THAT(text, ::testing::ContainsRegex("cuda:1 +Fake H200 +" + std::string(kUuid1) +
                                             " +1 +8.0 GiB +8.0 GiB"));
  const auto json = nlohmann::json::parse(Folioctl({"pools", "--output=json"}));
  ASSERT_EQ(json["devices"].size(), 2U);
  EXPECT_EQ(json["devices"][1]["name"], "Fake H200");
  EXPECT_EQ(json["devices"][1]["uuid"], kUuid1);
  EXPECT_EQ(json["devices"][1]["total_bytes"], "8589934592");
  EXPECT_EQ(json["devices"][1]["free_bytes"], "8588886016");
  EXPECT_EQ(json["devices"][1]["ranks"], nlohmann::json::array({1}));
  EXPECT_EQ(json["pools"][0]["rank_memory"][1]["device"], "cuda:1");
  EXPECT_EQ(json["pools"][0]["rank_memory"][1]["bytes"], "2097152");
}

TEST_F(ManagerGpu, WithoutNvmlDevicesHaveNoSizes) {
  ChildProcess manager(
      Command({{"--device=cuda:0", "--pool_bytes=2MiB"}, {}, FOLIO_FAKE_CUDA, NotInstalled()}));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  EXPECT_THAT(Folioctl({"pools"}),
              ::testing::ContainsRegex("Fake H100 +" + std::string(kUuid0) + " +all +- +-"));
  const auto json = nlohmann::json::parse(Folioctl({"pools", "--output=json"}));
  EXPECT_EQ(json["devices"][0]["name"], "Fake H100");
  EXPECT_FALSE(json["devices"][0].contains("total_bytes")) << json;
  EXPECT_FALSE(json["devices"][0].contains("free_bytes")) << json;
}

}  // namespace
}  // namespace folio::testing
