// The real folio-manager with its pool in a GPU's memory: what one worker writes there, another one
// reads after the first has let go.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "services/base/check.h"
#include "services/manager/memory/device_memory.h"
#include "services/manager/memory/shared_library.h"
#include "tests/manager/child_process.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

using ::testing::HasSubstr;

// The functions that a worker maps a pool with.
struct Driver {
  Driver() {
    const auto library = manager::SharedLibrary::Open("libcuda.so.1");
    FOLIO_CHECK(library.ok());
    for (const absl::Status& status :
         {library->Find("cuMemImportFromShareableHandle", &import),
          library->Find("cuMemAddressReserve", &reserve), library->Find("cuMemMap", &map),
          library->Find("cuMemSetAccess", &set_access), library->Find("cuMemUnmap", &unmap),
          library->Find("cuMemAddressFree", &free), library->Find("cuMemRelease", &release)}) {
      FOLIO_CHECK(status.ok());
    }
  }
  decltype(cuMemImportFromShareableHandle)* import = nullptr;
  decltype(cuMemAddressReserve)* reserve = nullptr;
  decltype(cuMemMap)* map = nullptr;
  decltype(cuMemSetAccess)* set_access = nullptr;
  decltype(cuMemUnmap)* unmap = nullptr;
  decltype(cuMemAddressFree)* free = nullptr;
  decltype(cuMemRelease)* release = nullptr;
};

// A descriptor's memory, mapped on the current device.
class DeviceMapping {
 public:
  DeviceMapping(const Driver& driver, int fd, size_t bytes, int device)
      : driver_(driver), bytes_(bytes) {
    CUmemGenericAllocationHandle handle = 0;
    auto* os_handle = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
    EXPECT_EQ(driver.import(&handle, os_handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
              CUDA_SUCCESS);
    EXPECT_EQ(driver.reserve(&address_, bytes, 0, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(driver.map(address_, bytes, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(driver.release(handle), CUDA_SUCCESS);  // the mapping holds the memory
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_EQ(driver.set_access(address_, bytes, &access, 1), CUDA_SUCCESS);
  }
  ~DeviceMapping() {
    EXPECT_EQ(driver_.unmap(address_, bytes_), CUDA_SUCCESS);
    EXPECT_EQ(driver_.free(address_, bytes_), CUDA_SUCCESS);
  }
  DeviceMapping(const DeviceMapping&) = delete;
  DeviceMapping& operator=(const DeviceMapping&) = delete;

  void* data() const { return reinterpret_cast<void*>(address_); }

 private:
  const Driver& driver_;
  const size_t bytes_;
  CUdeviceptr address_ = 0;
};

class GpuPool : public ::testing::Test {
 protected:
  std::string address() const { return "unix:" + (dir_ / "m.sock"); }
  // FOLIO_MANAGER: where it is, if not where it was built.
  std::vector<std::string> Command(const std::string& pool_bytes) const {
    const char* elsewhere = std::getenv("FOLIO_MANAGER");
    return {elsewhere != nullptr ? elsewhere : FOLIO_MANAGER_BINARY, "--listen=" + address(),
            "--device=cuda:0", "--pool_bytes=" + pool_bytes};
  }

  const TempDir dir_;
};

TEST_F(GpuPool, HoldsWhatAWorkerWroteWhenItHasGone) {
  ChildProcess manager(Command("31MiB"));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);  // makes the context
  const Driver driver;
  std::vector<uint32_t> written((size_t{31} << 20) / sizeof(uint32_t));
  for (size_t i = 0; i < written.size(); ++i) written[i] = static_cast<uint32_t>(i * 2654435761U);
  for (const bool first : {true, false}) {
    TestWorker worker(address());
    worker.ComputeOn(v1::DEVICE_KIND_CUDA);
    worker.Join();
    ASSERT_EQ(worker.attached().pool().pool_bytes(), written.size() * sizeof(uint32_t));
    ASSERT_EQ(worker.attached().pool().rank_memory_size(), 1);
    const v1::PageMemory& memory = worker.attached().pool().rank_memory(0);
    EXPECT_GE(memory.bytes(), worker.attached().pool().pool_bytes());
    const DeviceMapping pool(driver, worker.descriptors().pool.get(), memory.bytes(), 0);
    if (first) {
      ASSERT_EQ(cudaMemcpy(pool.data(), written.data(), written.size() * sizeof(uint32_t),
                           cudaMemcpyHostToDevice),
                cudaSuccess);
    } else {
      std::vector<uint32_t> read(written.size());
      ASSERT_EQ(cudaMemcpy(read.data(), pool.data(), read.size() * sizeof(uint32_t),
                           cudaMemcpyDeviceToHost),
                cudaSuccess);
      EXPECT_EQ(read, written);
    }
  }
  manager.Signal(SIGTERM);
  EXPECT_EQ(manager.Wait(), 0) << manager.output();
}

TEST_F(GpuPool, TellsTheDeviceAsTheRuntimeKnowsIt) {
  const auto source = manager::DeviceMemory::Open({0}, {});
  ASSERT_TRUE(source.ok()) << source.status();
  const manager::DeviceState state = (*source)->Devices()[0];
  cudaDeviceProp properties = {};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(state.name, properties.name);
  std::string uuid = "GPU-";
  for (int i = 0; i < 16; ++i) {
    std::array<char, 3> byte = {};
    std::snprintf(byte.data(), byte.size(), "%02x",
                  static_cast<unsigned char>(properties.uuid.bytes[i]));
    uuid += std::string(i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + byte.data();
  }
  EXPECT_EQ(state.uuid, uuid);
  if (state.free_bytes.has_value()) {
    EXPECT_GE(*state.total_bytes, properties.totalGlobalMem);
    EXPECT_LE(*state.free_bytes, *state.total_bytes);
  }
}

TEST_F(GpuPool, MoreThanTheGpuHasIsRefused) {
  ChildProcess manager(Command("900TiB"));
  EXPECT_EQ(manager.Wait(), 2) << manager.output();
  EXPECT_THAT(manager.output(), HasSubstr("--pool_bytes=900TiB: cuda:0 ("));
}

}  // namespace
}  // namespace folio::testing
