// Page memory of GPUs, on a stand-in for the driver that is loaded as the real one is.
#include "services/manager/memory/device_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "services/manager/memory/pool_size.h"
#include "tests/common/temp_dir.h"

namespace folio::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kMiB = uint64_t{1} << 20;

class DeviceMemoryTest : public ::testing::Test {
 protected:
  DeviceMemoryTest() {
    Set("FAKE_GPU_LOG", dir_ / "calls");
    for (const char* knob : {"FAKE_GPU_COUNT", "FAKE_GPU_BYTES", "FAKE_GPU_FAIL"}) unsetenv(knob);
  }
  static void Set(const char* knob, const std::string& value) {
    setenv(knob, value.c_str(), /*overwrite=*/1);
  }
  // How often the stand-ins were called by this name.
  int Calls(const std::string& function) const {
    std::ifstream log(dir_ / "calls");
    int calls = 0;
    for (std::string line; std::getline(log, line);) calls += line == function ? 1 : 0;
    return calls;
  }
  static absl::StatusOr<std::unique_ptr<DeviceMemory>> TryOpen(const std::vector<int>& ordinals,
                                                               bool nvml = true) {
    return DeviceMemory::Open(
        ordinals, {.driver = FOLIO_FAKE_CUDA "/libcuda.so.1",
                   .nvml = nvml ? FOLIO_FAKE_NVML "/libnvidia-ml.so.1" : "/nonexistent"});
  }
  static std::unique_ptr<DeviceMemory> Open(const std::vector<int>& ordinals, bool nvml = true) {
    auto opened = TryOpen(ordinals, nvml);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }

  const testing::TempDir dir_;
};

TEST_F(DeviceMemoryTest, RoundsUpAndFreesWhenItIsLetGo) {
  auto source = Open({1});
  ASSERT_NE(source, nullptr);
  auto memory = source->Allocate(Rank(0), 3 * kMiB);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->place().bytes, 4 * kMiB);
  EXPECT_EQ((*memory)->place().device, "cuda:1");
  EXPECT_EQ((*memory)->place().device_uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e1f");
  struct stat info = {};
  ASSERT_EQ(fstat((*memory)->fd(), &info), 0);
  EXPECT_EQ(info.st_size, static_cast<off_t>(4 * kMiB));
  EXPECT_EQ(fcntl((*memory)->fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  // It may outlive where it came from.
  source.reset();
  EXPECT_EQ(Calls("cuMemRelease"), 0);
  memory->reset();
  EXPECT_EQ(Calls("cuMemCreate"), 1);
  EXPECT_EQ(Calls("cuMemRelease"), 1);
}

TEST_F(DeviceMemoryTest, RanksAreOnTheDevicesThatAreNamed) {
  const auto one = Open({0});
  EXPECT_EQ(one->device(), "cuda:0");
  EXPECT_THAT(one->Devices().at(0).ranks, IsEmpty());
  EXPECT_EQ((*one->Allocate(Rank(3), 1))->place().device, "cuda:0");
  const auto several = Open({1, 0, 1});
  EXPECT_EQ(several->device(), "cuda:1,cuda:0,cuda:1");
  EXPECT_EQ((*several->Allocate(Rank(0), 1))->place().device, "cuda:1");
  EXPECT_EQ((*several->Allocate(Rank(1), 1))->place().device, "cuda:0");
  EXPECT_EQ((*several->Allocate(Rank(2), 1))->place().device, "cuda:1");
  ASSERT_EQ(several->Devices().size(), 2U);
  EXPECT_THAT(several->Devices()[0].ranks, ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(several->Devices()[1].ranks, ElementsAre(Rank(1)));
  const auto refused = several->PagesThatFit({.bytes = kMiB}, {512, 512}, 1).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(
      std::string(refused.message()),
      HasSubstr("--device=cuda:1,cuda:0,cuda:1 names 3 devices and the worker has 2 ranks"));
}

TEST_F(DeviceMemoryTest, ASizeIsOfAllRanksAndAShareOfEachDevice) {
  Set("FAKE_GPU_BYTES", std::to_string(100 * kMiB));
  const auto source = Open({0, 1, 1});
  EXPECT_EQ(*source->PagesThatFit({.bytes = 60 * kMiB}, {1024, 512, 512}, 1), 60 * kMiB / 2048);
  // Device 1 has 99 MiB free and two ranks, each of which may be rounded up by 2 MiB.
  EXPECT_EQ(*source->PagesThatFit({.share = 1}, {1024, 512, 1024}, 1), 95 * kMiB / 1536);
  // Device 0 is the tighter one when its pages are larger.
  EXPECT_EQ(*source->PagesThatFit({.share = 0.5}, {4096, 512, 512}, 1), 48 * kMiB / 4096);
  // Less than the rounding holds nothing.
  EXPECT_EQ(*source->PagesThatFit({.share = 0.01}, {4096, 512, 512}, 1), 0U);
  // What is promised fits.
  const auto pages = *source->PagesThatFit({.share = 1}, {1000, 600, 700}, 1);
  std::vector<std::unique_ptr<PageMemory>> ranks;
  for (const auto& [rank, bytes] : {std::pair{0, 1000}, {1, 600}, {2, 700}}) {
    auto memory = source->Allocate(Rank(rank), pages * bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    ranks.push_back(*std::move(memory));
  }
}

TEST_F(DeviceMemoryTest, SaysWhatIsWantedAndWhatIsFree) {
  Set("FAKE_GPU_BYTES", std::to_string(100 * kMiB));
  const auto one = Open({1});
  EXPECT_TRUE(one->CheckSize({.bytes = 99 * kMiB}).ok());
  const absl::Status more = one->CheckSize({.bytes = 99 * kMiB + 1});
  EXPECT_TRUE(absl::IsResourceExhausted(more)) << more;
  EXPECT_THAT(std::string(more.message()),
              HasSubstr("cuda:1 (Fake H200) has 99MiB free of 100MiB and the pool wants 99MiB"));
  const absl::Status two = Open({0, 1})->CheckSize({.bytes = 300 * kMiB});
  EXPECT_THAT(std::string(two.message()),
              HasSubstr("cuda:0,cuda:1 have 199MiB free together and the pool wants 300MiB"));
  const auto memory = one->Allocate(Rank(0), 102 * kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted(memory.status())) << memory.status();
  EXPECT_THAT(std::string(memory.status().message()),
              ::testing::AllOf(HasSubstr("99MiB free of 100MiB and the pool wants 102MiB"),
                               HasSubstr("cuMemCreate: out of memory (CUDA_ERROR_OUT_OF_MEMORY")));
}

TEST_F(DeviceMemoryTest, WithoutNvmlSizesWorkAndSharesAreRefused) {
  Set("FAKE_GPU_BYTES", std::to_string(100 * kMiB));
  const auto source = Open({0}, /*nvml=*/false);
  EXPECT_TRUE(source->CheckSize({.bytes = 100 * kMiB}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(source->CheckSize({.bytes = 101 * kMiB})));
  const absl::Status share = source->CheckSize({.share = 0.5});
  EXPECT_TRUE(absl::IsFailedPrecondition(share)) << share;
  EXPECT_THAT(std::string(share.message()), HasSubstr("give a size like 20GiB"));
  ASSERT_EQ(source->Devices().size(), 1U);
  EXPECT_EQ(source->Devices()[0].name, "Fake H100");
  EXPECT_FALSE(source->Devices()[0].free_bytes.has_value());
  EXPECT_FALSE(source->Devices()[0].total_bytes.has_value());
}

TEST_F(DeviceMemoryTest, AnExportThatFailsLeavesNothingAllocated) {
  Set("FAKE_GPU_FAIL", "cuMemExportToShareableHandle=999");
  const auto memory = Open({0})->Allocate(Rank(0), kMiB);
  EXPECT_TRUE(absl::IsFailedPrecondition(memory.status())) << memory.status();
  EXPECT_THAT(std::string(memory.status().message()),
              HasSubstr("cuda:0 (Fake H100): cuMemExportToShareableHandle: unknown error "
                        "(CUDA_ERROR_UNKNOWN, 999)"));
  EXPECT_EQ(Calls("cuMemCreate"), 1);
  EXPECT_EQ(Calls("cuMemRelease"), 1);
}

TEST_F(DeviceMemoryTest, EveryCallThatFailsIsNamed) {
  for (const char* function :
       {"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetUuid",
        "cuDeviceTotalMem", "cuDeviceGetAttribute", "cuMemGetAllocationGranularity"}) {
    // A code that this driver has no words for.
    Set("FAKE_GPU_FAIL", std::string(function) + "=12345");
    const auto opened = TryOpen({0});
    EXPECT_TRUE(absl::IsFailedPrecondition(opened.status())) << opened.status();
    EXPECT_THAT(std::string(opened.status().message()),
                ::testing::AllOf(HasSubstr("--device=cuda:0: " + std::string(function) + ": "),
                                 HasSubstr("unknown error (unnamed, 12345); or use --device=cpu")));
  }
}

TEST(PoolSizeFlag, IsASizeOrAShare) {
  PoolSize size;
  std::string error;
  ASSERT_TRUE(AbslParseFlag("1.5GiB", &size, &error));
  EXPECT_EQ(size.bytes, 1536 * kMiB);
  EXPECT_FALSE(size.is_share());
  ASSERT_TRUE(AbslParseFlag(" 12.5% ", &size, &error));
  EXPECT_EQ(size.bytes, 0U);
  EXPECT_EQ(size.share, 0.125);
  EXPECT_TRUE(size.is_share());
  for (const std::string text : {"2GiB", "12.5%", "80%", "100%", "0B"}) {
    ASSERT_TRUE(AbslParseFlag(text, &size, &error)) << text;
    EXPECT_EQ(AbslUnparseFlag(size), text);
  }
  for (const char* text : {"0%", "-5%", "100.1%", "nan%", "%", "half%", "80%%", "lots", "8 0%"}) {
    EXPECT_FALSE(AbslParseFlag(text, &size, &error)) << text;
    EXPECT_THAT(error, HasSubstr(text));
  }
}

}  // namespace
}  // namespace folio::manager
