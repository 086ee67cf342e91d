// Tests of the driver calls that import a pool, and that nothing stays behind when one is refused.
// They run on the host, with a driver of our own.
#include "kernels/cuda/runtime/imported_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/runtime/driver.h"

namespace folio::kernels::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Takes down what it is asked for, and refuses what it is told to.
struct FakeDriver {
  std::vector<std::string> calls;
  std::string refused;
  size_t bytes = 4 << 20;
};
FakeDriver* fake = nullptr;

CUresult Answer(const std::string& call, CUresult refusal = CUDA_ERROR_INVALID_VALUE) {
  fake->calls.push_back(call);
  return call.substr(0, call.find(' ')) == fake->refused ? refusal : CUDA_SUCCESS;
}

constexpr CUdeviceptr kAddress = 0x7f0000000000;
constexpr CUmemGenericAllocationHandle kHandle = 77;
constexpr size_t kGranularity = 2 << 20;

DriverCalls FakeCalls() {
  DriverCalls calls;
  calls.error_string = [](CUresult, const char** words) {
    *words = "refused";
    return CUDA_SUCCESS;
  };
  calls.import = [](CUmemGenericAllocationHandle* handle, void* fd, CUmemAllocationHandleType) {
    *handle = kHandle;
    return Answer(absl::StrCat("import ", reinterpret_cast<intptr_t>(fd)));
  };
  calls.properties = [](CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
    *properties = {};
    return Answer(absl::StrCat("properties ", handle));
  };
  calls.granularity = [](size_t* granularity, const CUmemAllocationProp*,
                         CUmemAllocationGranularity_flags) {
    *granularity = kGranularity;
    return Answer("granularity");
  };
  calls.reserve = [](CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
    *address = kAddress;
    return Answer(absl::StrCat("reserve ", bytes));
  };
  calls.map = [](CUdeviceptr address, size_t bytes, size_t offset,
                 CUmemGenericAllocationHandle handle, unsigned long long) {
    if (bytes > fake->bytes) fake->refused = "map";
    return Answer(absl::StrCat("map ", address == kAddress, " ", bytes, " ", offset, " ", handle));
  };
  calls.set_access = [](CUdeviceptr, size_t bytes, const CUmemAccessDesc* access, size_t count) {
    return Answer(absl::StrCat("access ", bytes, " GPU ", access->location.id, " ",
                               access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, " ", count));
  };
  calls.unmap = [](CUdeviceptr, size_t bytes) { return Answer(absl::StrCat("unmap ", bytes)); };
  calls.free = [](CUdeviceptr, size_t bytes) { return Answer(absl::StrCat("free ", bytes)); };
  calls.release = [](CUmemGenericAllocationHandle handle) {
    return Answer(absl::StrCat("release ", handle));
  };
  return calls;
}

class ImportedPoolTest : public testing::Test {
 protected:
  ImportedPoolTest() { fake = &fake_; }

  absl::Status Import(size_t bytes) { return ImportedPool::Import(calls_, 5, bytes, 3).status(); }

  FakeDriver fake_;
  const DriverCalls calls_ = FakeCalls();
};

TEST_F(ImportedPoolTest, IsMappedInWholeGranulesAndUnmapped) {
  {
    auto made = ImportedPool::Import(calls_, 5, kGranularity + 1, 3);
    ASSERT_TRUE(made.ok()) << made.status();
    const ImportedPool pool = *std::move(made);
    EXPECT_EQ(reinterpret_cast<CUdeviceptr>(pool.data()), kAddress);
    EXPECT_THAT(fake_.calls,
                ElementsAre("import 5", "properties 77", "granularity", "reserve 4194304",
                            "map 1 4194304 0 77", "access 4194304 GPU 3 1 1", "release 77"));
    fake_.calls.clear();
  }
  EXPECT_THAT(fake_.calls, ElementsAre("unmap 4194304", "free 4194304"));
}

TEST_F(ImportedPoolTest, WhatIsRefusedIsSaidAndLeavesNothing) {
  struct Refusal {
    const char* call;
    absl::StatusCode code;
    const char* said;
    std::vector<std::string> undone;
  };
  const std::vector<Refusal> refusals = {
      {"import", absl::StatusCode::kFailedPrecondition, "not memory of a GPU", {}},
      {"properties", absl::StatusCode::kInternal, "what it is: refused (1)", {"release 77"}},
      {"granularity", absl::StatusCode::kInternal, "granularity", {"release 77"}},
      {"reserve", absl::StatusCode::kInternal, "no addresses for 2097152", {"release 77"}},
      {"map",
       absl::StatusCode::kFailedPrecondition,
       "shorter than the 2097152 bytes",
       {"free 2097152", "release 77"}},
      {"access",
       absl::StatusCode::kInternal,
       "GPU 3 may not use the pool",
       {"unmap 2097152", "free 2097152", "release 77"}},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.call);
    fake_ = {.calls = {}, .refused = refusal.call};
    const absl::Status status = Import(100);
    EXPECT_EQ(status.code(), refusal.code);
    EXPECT_THAT(std::string(status.message()), HasSubstr(refusal.said));
    const auto at = std::find_if(fake_.calls.begin(), fake_.calls.end(), [&](const auto& call) {
      return call.rfind(refusal.call, 0) == 0;
    });
    ASSERT_NE(at, fake_.calls.end());
    EXPECT_EQ(std::vector<std::string>(at + 1, fake_.calls.end()), refusal.undone);
  }
}

TEST_F(ImportedPoolTest, AShorterPoolThanPromisedIsRefused) {
  EXPECT_THAT(std::string(Import(fake_.bytes + 1).message()), HasSubstr("shorter than"));
}

TEST(CudaDriver, ItsAbsenceIsSaid) {
  const auto driver = Driver();
  if (driver.ok()) GTEST_SKIP() << "there is a driver";
  EXPECT_EQ(driver.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(driver.status().message()), HasSubstr("CUDA driver"));
  EXPECT_EQ(ImportedPool::Import(0, 1, 0).status(), driver.status());
}

}  // namespace
}  // namespace folio::kernels::cuda
