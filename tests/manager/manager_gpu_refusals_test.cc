// What the program folio-manager says where pages cannot be in a GPU's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/manager/child_process.h"
#include "tests/manager/manager_gpu_harness.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(ManagerGpu, MemoryThatIsGoneWhenItIsNeededIsNamedAndNothingIsLost) {
  ChildProcess manager(
      Command({{"--device=cuda:0", "--pool_bytes=64MiB"}, {"FAKE_GPU_FAIL=cuMemCreate=2"}}));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  TestWorker worker(address());
  worker.ComputeOn(v1::DEVICE_KIND_CUDA);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto refused = worker.Attach().status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("cuda:0 (Fake H100) has 8192MiB free"), HasSubstr("wants 64MiB"),
                      HasSubstr("cuMemCreate: out of memory")));
  }
  EXPECT_THAT(Folioctl({"pools"}), HasSubstr("No pool"));
}

TEST_F(ManagerGpu, SaysWhyItCannotStart) {
  const std::string none = NotInstalled();
  const struct {
    const char* what;
    Setting setting;
    std::vector<std::string> words;
  } kCases[] = {
      {"no driver",
       {{"--device=cuda:0"}, {}, none, none},
       {"--device=cuda:0: there is no CUDA driver", "libcuda.so.1", "install NVIDIA's",
        "--gpus all", "use --device=cpu"}},
      {"old driver",
       {{"--device=cuda:0"}, {}, FOLIO_FAKE_OLD_CUDA},
       {"libcuda.so.1 has no function cuMem", "too old", "550", "use --device=cpu"}},
      {"no such device",
       {{"--device=cuda:2"}},
       {"--device=cuda:2: ", "CUDA shows 2 devices", "CUDA_VISIBLE_DEVICES", "use --device=cpu"}},
      {"no such second device",
       {{"--device=cuda:0,cuda:7"}},
       {"--device=cuda:7: ", "CUDA shows 2 devices"}},
      {"no device at all",
       {{"--device=cuda:0"}, {"FAKE_GPU_COUNT=0"}},
       {"cuInit: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE, 100)",
        "use --device=cpu"}},
      {"no virtual memory management",
       {{"--device=cuda:0"}, {"FAKE_GPU_LACKS=vmm"}},
       {"does not support virtual memory management", "use --device=cpu"}},
      {"no descriptors",
       {{"--device=cuda:0"}, {"FAKE_GPU_LACKS=posix_fd"}},
       {"does not support handing out memory as POSIX file descriptors", "use --device=cpu"}},
      {"a MIG instance",
       {{"--device=cuda:0"}, {"FAKE_GPU_MIG=instance"}},
       {"Fake H100 MIG 1g.10gb is a MIG instance", "nvidia-smi -mig 0", "use --device=cpu"}},
      {"MIG mode without instances",
       {{"--device=cuda:0"}, {"FAKE_GPU_MIG=empty"}},
       {"no CUDA-capable device", "GPU 0 (Fake H100) is in MIG mode", "nvidia-smi -mig 0"}},
      {"a driver that does not start",
       {{"--device=cuda:0"}, {"FAKE_GPU_FAIL=cuInit=999"}},
       {"cuInit: unknown error (CUDA_ERROR_UNKNOWN, 999)", "use --device=cpu"}},
  };
  for (const auto& c : kCases) {
    ChildProcess manager(Command(c.setting));
    EXPECT_EQ(manager.Wait(), 1) << c.what << ": " << manager.output();
    EXPECT_THAT(manager.output(), HasSubstr("cannot start")) << c.what;
    for (const std::string& word : c.words) {
      EXPECT_THAT(manager.output(), HasSubstr(word)) << c.what;
    }
  }
  EXPECT_EQ(CallsOf("cuMemCreate"), 0U);
}

TEST_F(ManagerGpu, SizesThatCannotBeAreBadFlags) {
  const struct {
    Setting setting;
    std::vector<std::string> words;
  } kCases[] = {
      {{{"--device=cuda:0", "--pool_bytes=9GiB"}},
       {"--pool_bytes=9GiB", "cuda:0 (Fake H100) has 8192MiB free of 8192MiB", "wants 9216MiB"}},
      {{{"--device=cuda:0", "--pool_bytes=80%"}, {}, FOLIO_FAKE_CUDA, NotInstalled()},
       {"--pool_bytes=80%", "libnvidia-ml.so.1", "give a size like 20GiB"}},
      {{{"--device=cuda:0", "--pool_bytes=101%"}}, {"--pool_bytes=101%", "up to 100%"}},
      {{{"--device=cuda"}}, {"--device=cuda:", "such as cuda:0"}},
      {{{"--device=cuda:-1"}}, {"--device=cuda:-1", "such as cuda:0"}},
      {{{"--device=cuda:0,cpu"}}, {"--device=cuda:0,cpu", "such as cuda:0"}},
      {{{"--device=gpu"}}, {"--device=gpu", "such as cuda:0"}},
  };
  for (const auto& c : kCases) {
    ChildProcess manager(Command(c.setting));
    EXPECT_EQ(manager.Wait(), 2) << manager.output();
    for (const std::string& word : c.words) EXPECT_THAT(manager.output(), HasSubstr(word));
  }
}

}  // namespace
}  // namespace folio::testing
