// A stand-in for libcuda.so.1: the functions that the manager loads, on memfds, with the checks
// that the real ones make, those that a worker maps such memory with, and some that nobody calls,
// which only note that. See knobs.h.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "services/manager/memory/cuda_abi.h"
#include "tests/manager/fake_gpu/knobs.h"

namespace {

using folio::manager::abi::CuAllocation;
using folio::manager::abi::CuAllocationProp;
using folio::manager::abi::CuDevice;
using folio::manager::abi::CuResult;
using folio::manager::abi::CuUuid;
using folio::testing::fake_gpu::Bytes;
using folio::testing::fake_gpu::Called;
using folio::testing::fake_gpu::Count;
using folio::testing::fake_gpu::Knob;
using folio::testing::fake_gpu::UuidByte;

constexpr CuResult kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3, kNoDevice = 100,
                   kInvalidDevice = 101;
constexpr size_t kGranularity = size_t{2} << 20;

struct Allocation {
  int fd = -1;
  int device = 0;
  size_t bytes = 0;
};

std::mutex mu;
bool started = false;
CuAllocation next_handle = 1000;
std::map<CuAllocation, Allocation> allocations;

// What a call returns before it does anything; 0: it may go on.
CuResult Begin(const char* function) {
  if (const int told = Called(function); told != 0) return told;
  return started ? 0 : kNotInitialized;
}

bool GoodProperties(const CuAllocationProp& prop) {
  const unsigned char zeros[8] = {};
  return prop.type == 1 && prop.requested_handle_types == 1 && prop.location.type == 1 &&
         prop.location.id >= 0 && prop.location.id < Count() &&
         prop.win32_handle_metadata == nullptr &&
         std::memcmp(&prop.alloc_flags, zeros, sizeof(prop.alloc_flags)) == 0;
}

struct CuAccess {  // CUmemAccessDesc
  struct {
    int type;
    int id;
  } location;
  int flags;
};

void* Pointer(unsigned long long address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver's addresses are numbers.
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

// Puts a mapping that nobody can use yet where addresses were reserved.
CuResult Place(unsigned long long address, size_t bytes, int flags, int fd) {
  void* at = Pointer(address);
  return mmap(at, bytes, PROT_NONE, flags | MAP_FIXED, fd, 0) == at ? 0 : kInvalidValue;
}

size_t Used(int device) {
  size_t used = 0;
  for (const auto& [handle, allocation] : allocations) {
    if (allocation.device == device) used += allocation.bytes;
  }
  return used;
}

}  // namespace

extern "C" {

CuResult cuInit(unsigned flags) {
  if (const int told = Called("cuInit"); told != 0) return told;
  if (flags != 0) return kInvalidValue;
  if (Count() == 0 || Knob("FAKE_GPU_MIG") == "empty") return kNoDevice;
  started = true;
  return 0;
}

CuResult cuGetErrorString(CuResult error, const char** text) {
  switch (error) {
    case kOutOfMemory:
      *text = "out of memory";
      return 0;
    case kNoDevice:
      *text = "no CUDA-capable device is detected";
      return 0;
    case 999:
      *text = "unknown error";
      return 0;
    default:
      *text = nullptr;
      return kInvalidValue;
  }
}

CuResult cuGetErrorName(CuResult error, const char** text) {
  switch (error) {
    case kOutOfMemory:
      *text = "CUDA_ERROR_OUT_OF_MEMORY";
      return 0;
    case kNoDevice:
      *text = "CUDA_ERROR_NO_DEVICE";
      return 0;
    case 999:
      *text = "CUDA_ERROR_UNKNOWN";
      return 0;
    default:
      *text = nullptr;
      return kInvalidValue;
  }
}

CuResult cuDeviceGetCount(int* count) {
  if (const CuResult result = Begin("cuDeviceGetCount"); result != 0) return result;
  *count = Count();
  return 0;
}

CuResult cuDeviceGet(CuDevice* device, int ordinal) {
  if (const CuResult result = Begin("cuDeviceGet"); result != 0) return result;
  if (ordinal < 0 || ordinal >= Count()) return kInvalidDevice;
  *device = ordinal;
  return 0;
}

CuResult cuDeviceGetName(char* name, int length, CuDevice device) {
  if (const CuResult result = Begin("cuDeviceGetName"); result != 0) return result;
  const bool instance = device == 0 && Knob("FAKE_GPU_MIG") == "instance";
  std::snprintf(name, length, "Fake H%d00%s", device + 1, instance ? " MIG 1g.10gb" : "");
  return 0;
}

CuResult cuDeviceGetUuid(CuUuid* uuid, CuDevice device) {
  if (const CuResult result = Begin("cuDeviceGetUuid"); result != 0) return result;
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = UuidByte(device, i);
  return 0;
}

CuResult cuDeviceGetUuid_v2(CuUuid* uuid, CuDevice device) {
  const CuResult result = cuDeviceGetUuid(uuid, device);
  if (device == 0 && Knob("FAKE_GPU_MIG") == "instance") uuid->bytes[0] = '\x7f';
  return result;
}

CuResult cuDeviceTotalMem_v2(size_t* bytes, CuDevice device) {
  if (const CuResult result = Begin("cuDeviceTotalMem"); result != 0) return result;
  *bytes = Bytes();
  return 0;
}

CuResult cuDeviceGetAttribute(int* value, int attribute, CuDevice device) {
  if (const CuResult result = Begin("cuDeviceGetAttribute"); result != 0) return result;
  if (attribute != 102 && attribute != 103) return kInvalidValue;
  *value = Knob("FAKE_GPU_LACKS") == (attribute == 102 ? "vmm" : "posix_fd") ? 0 : 1;
  return 0;
}

CuResult cuMemGetAllocationGranularity(size_t* granularity, const CuAllocationProp* prop,
                                       int option) {
  if (const CuResult result = Begin("cuMemGetAllocationGranularity"); result != 0) return result;
  if (!GoodProperties(*prop) || option < 0 || option > 1) return kInvalidValue;
  *granularity = kGranularity;
  return 0;
}

CuResult cuMemCreate(CuAllocation* handle, size_t size, const CuAllocationProp* prop,
                     unsigned long long flags) {
  const std::lock_guard<std::mutex> lock(mu);
  if (const CuResult result = Begin("cuMemCreate"); result != 0) return result;
  if (!GoodProperties(*prop) || size == 0 || size % kGranularity != 0 || flags != 0) {
    return kInvalidValue;
  }
  if (size > Bytes() - Used(prop->location.id)) return kOutOfMemory;
  const std::string name = "fake-gpu-" + std::to_string(prop->location.id);
  Allocation made = {memfd_create(name.c_str(), 0), prop->location.id, size};
  if (made.fd < 0 || ftruncate(made.fd, static_cast<off_t>(size)) != 0) return kOutOfMemory;
  *handle = next_handle++;
  allocations[*handle] = made;
  return 0;
}

CuResult cuMemExportToShareableHandle(void* shareable, CuAllocation handle, int handle_type,
                                      unsigned long long flags) {
  const std::lock_guard<std::mutex> lock(mu);
  if (const CuResult result = Begin("cuMemExportToShareableHandle"); result != 0) return result;
  const auto it = allocations.find(handle);
  if (shareable == nullptr || it == allocations.end() || handle_type != 1 || flags != 0) {
    return kInvalidValue;
  }
  // As the real one, without close-on-exec.
  *static_cast<int*>(shareable) = dup(it->second.fd);
  return 0;
}

CuResult cuMemRelease(CuAllocation handle) {
  const std::lock_guard<std::mutex> lock(mu);
  if (const CuResult result = Begin("cuMemRelease"); result != 0) return result;
  const auto it = allocations.find(handle);
  if (it == allocations.end()) return kInvalidValue;
  close(it->second.fd);
  allocations.erase(it);
  return 0;
}

// What a process that maps the memory calls: the device's addresses are the host's.
CuResult cuMemImportFromShareableHandle(CuAllocation* handle, void* os_handle, int handle_type) {
  const std::lock_guard<std::mutex> lock(mu);
  if (const CuResult result = Begin("cuMemImportFromShareableHandle"); result != 0) return result;
  const int given = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
  char name[64] = {};
  int device = 0;
  const std::string link = "/proc/self/fd/" + std::to_string(given);
  struct stat info = {};
  if (handle_type != 1 || readlink(link.c_str(), name, sizeof(name) - 1) < 0 ||
      std::sscanf(name, "/memfd:fake-gpu-%d", &device) != 1 || fstat(given, &info) != 0) {
    return kInvalidValue;
  }
  *handle = next_handle++;
  allocations[*handle] = {dup(given), device, static_cast<size_t>(info.st_size)};
  return 0;
}

CuResult cuMemGetAllocationPropertiesFromHandle(CuAllocationProp* prop, CuAllocation handle) {
  const std::lock_guard<std::mutex> lock(mu);
  if (const CuResult result = Begin("cuMemGetAllocationProperties"); result != 0) return result;
  const auto it = allocations.find(handle);
  if (it == allocations.end()) return kInvalidValue;
  *prop = {};
  prop->type = prop->requested_handle_types = prop->location.type = 1;
  prop->location.id = it->second.device;
  return 0;
}

CuResult cuMemAddressReserve(unsigned long long* address, size_t bytes, size_t, unsigned long long,
                             unsigned long long flags) {
  if (const CuResult result = Begin("cuMemAddressReserve"); result != 0) return result;
  if (bytes == 0 || bytes % kGranularity != 0 || flags != 0) return kInvalidValue;
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<uintptr_t>(at);
  return 0;
}

CuResult cuMemMap(unsigned long long address, size_t bytes, size_t offset, CuAllocation handle,
                  unsigned long long flags) {
  const std::lock_guard<std::mutex> lock(mu);
  if (const CuResult result = Begin("cuMemMap"); result != 0) return result;
  const auto it = allocations.find(handle);
  if (it == allocations.end() || bytes == 0 || bytes % kGranularity != 0 || offset != 0 ||
      flags != 0 || bytes > it->second.bytes) {
    return kInvalidValue;
  }
  return Place(address, bytes, MAP_SHARED, it->second.fd);
}

CuResult cuMemSetAccess(unsigned long long address, size_t bytes, const CuAccess* access,
                        size_t count) {
  if (const CuResult result = Begin("cuMemSetAccess"); result != 0) return result;
  if (count != 1 || access->location.type != 1 || access->flags != 3 || access->location.id < 0 ||
      access->location.id >= Count()) {
    return kInvalidValue;
  }
  return mprotect(Pointer(address), bytes, PROT_READ | PROT_WRITE) == 0 ? 0 : kInvalidValue;
}

CuResult cuMemUnmap(unsigned long long address, size_t bytes) {
  if (const CuResult result = Begin("cuMemUnmap"); result != 0) return result;
  return Place(address, bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

CuResult cuMemAddressFree(unsigned long long address, size_t bytes) {
  if (const CuResult result = Begin("cuMemAddressFree"); result != 0) return result;
  return munmap(Pointer(address), bytes) == 0 ? 0 : kInvalidValue;
}

// Whoever has no context has no use for these.
CuResult cuCtxCreate_v2(void**, unsigned, CuDevice) { return Called("cuCtxCreate_v2"); }
CuResult cuDevicePrimaryCtxRetain(void**, CuDevice) { return Called("cuDevicePrimaryCtxRetain"); }

}  // extern "C"
