// This header declares the functions of the CUDA driver and of NVML that the manager calls. They
// are declared here so that one manager program serves machines with and without GPUs and is built
// without a CUDA Toolkit. The source is the CUDA Driver API and NVML reference manuals, and
// tests/gpu/cuda_abi_test.cc compares this with cuda.h where a toolkit is installed.
#ifndef FOLIO_SERVICES_MANAGER_MEMORY_CUDA_ABI_H_
#define FOLIO_SERVICES_MANAGER_MEMORY_CUDA_ABI_H_

#include <cstddef>

namespace folio::manager::abi {

// CUresult.
using CuResult = int;
inline constexpr CuResult kCuSuccess = 0;
inline constexpr CuResult kCuErrorOutOfMemory = 2;
inline constexpr CuResult kCuErrorNoDevice = 100;

using CuDevice = int;                     // CUdevice
using CuAllocation = unsigned long long;  // CUmemGenericAllocationHandle
inline constexpr int kCuPinned = 1;       // CU_MEM_ALLOCATION_TYPE_PINNED
inline constexpr int kCuOnDevice = 1;     // CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int kCuPosixFd = 1;      // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int kCuRecommended = 1;  // CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
inline constexpr int kCuHasVmm = 102;     // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
inline constexpr int kCuHasPosixFd =
    103;  // CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED

struct CuUuid {  // CUuuid
  char bytes[16];
};

struct CuAllocationProp {  // CUmemAllocationProp
  int type;
  int requested_handle_types;
  struct {
    int type;
    int id;
  } location;
  void* win32_handle_metadata;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } alloc_flags;
};

// These are functions of libcuda.so.1. If cuda.h maps a name to another symbol (_v2), the type here
// is the symbol's.
using CuInit = CuResult(unsigned flags);
using CuGetErrorString = CuResult(CuResult error, const char** text);
using CuGetErrorName = CuResult(CuResult error, const char** text);
using CuDeviceGetCount = CuResult(int* count);
using CuDeviceGet = CuResult(CuDevice* device, int ordinal);
using CuDeviceGetName = CuResult(char* name, int length, CuDevice device);
using CuDeviceGetUuid = CuResult(CuUuid* uuid, CuDevice device);
using CuDeviceTotalMem = CuResult(size_t* bytes, CuDevice device);
using CuDeviceGetAttribute = CuResult(int* value, int attribute, CuDevice device);
using CuMemGetAllocationGranularity = CuResult(size_t* granularity, const CuAllocationProp* prop,
                                               int option);
using CuMemCreate = CuResult(CuAllocation* allocation, size_t size, const CuAllocationProp* prop,
                             unsigned long long flags);
using CuMemExportToShareableHandle = CuResult(void* shareable, CuAllocation allocation,
                                              int handle_type, unsigned long long flags);
using CuMemRelease = CuResult(CuAllocation allocation);

// nvmlReturn_t.
using NvmlResult = int;
inline constexpr NvmlResult kNvmlSuccess = 0;
inline constexpr unsigned kNvmlMigEnabled = 1;  // NVML_DEVICE_MIG_ENABLE

using NvmlDevice = struct NvmlDeviceHandle*;  // nvmlDevice_t

struct NvmlMemory {  // nvmlMemory_t: bytes
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// These are functions of libnvidia-ml.so.1.
using NvmlInit = NvmlResult();
using NvmlShutdown = NvmlResult();
using NvmlDeviceGetCount = NvmlResult(unsigned* count);
using NvmlDeviceGetHandleByIndex = NvmlResult(unsigned index, NvmlDevice* device);
using NvmlDeviceGetHandleByUuid = NvmlResult(const char* uuid, NvmlDevice* device);
using NvmlDeviceGetName = NvmlResult(NvmlDevice device, char* name, unsigned length);
using NvmlDeviceGetMemoryInfo = NvmlResult(NvmlDevice device, NvmlMemory* memory);
using NvmlDeviceGetMigMode = NvmlResult(NvmlDevice device, unsigned* current, unsigned* pending);

}  // namespace folio::manager::abi

#endif  // FOLIO_SERVICES_MANAGER_MEMORY_CUDA_ABI_H_
