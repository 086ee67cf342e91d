// The manager declares what it uses of the CUDA driver itself; here the compiler compares that with
// the toolkit's header. Enumerations and plain integers of one size are passed alike.
#include "services/manager/memory/cuda_abi.h"

#include <cuda.h>

#include <cstddef>
#include <type_traits>

namespace folio::manager::abi {
namespace {

template <typename A, typename B>
constexpr bool kAlike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

template <typename F, typename G>
struct AlikeFunctions : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
  requires(sizeof...(A) == sizeof...(B))
struct AlikeFunctions<R(A...), S(B...)>
    : std::bool_constant<kAlike<R, S> && (kAlike<A, B> && ...)> {};

static_assert(AlikeFunctions<CuInit, decltype(cuInit)>());
static_assert(AlikeFunctions<CuGetErrorString, decltype(cuGetErrorString)>());
static_assert(AlikeFunctions<CuGetErrorName, decltype(cuGetErrorName)>());
static_assert(AlikeFunctions<CuDeviceGetCount, decltype(cuDeviceGetCount)>());
static_assert(AlikeFunctions<CuDeviceGet, decltype(cuDeviceGet)>());
static_assert(AlikeFunctions<CuDeviceGetName, decltype(cuDeviceGetName)>());
static_assert(AlikeFunctions<CuDeviceGetUuid, decltype(cuDeviceGetUuid)>());
static_assert(AlikeFunctions<CuDeviceTotalMem, decltype(cuDeviceTotalMem)>());
static_assert(AlikeFunctions<CuDeviceGetAttribute, decltype(cuDeviceGetAttribute)>());
static_assert(
    AlikeFunctions<CuMemGetAllocationGranularity, decltype(cuMemGetAllocationGranularity)>());
static_assert(AlikeFunctions<CuMemCreate, decltype(cuMemCreate)>());
static_assert(
    AlikeFunctions<CuMemExportToShareableHandle, decltype(cuMemExportToShareableHandle)>());
static_assert(AlikeFunctions<CuMemRelease, decltype(cuMemRelease)>());

static_assert(kCuSuccess == CUDA_SUCCESS);
static_assert(kCuErrorOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kCuErrorNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kCuPinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(kCuOnDevice == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(kCuPosixFd == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(kCuRecommended == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
static_assert(kCuHasVmm == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(kCuHasPosixFd == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);

static_assert(kAlike<CuDevice, CUdevice>);
static_assert(std::is_same_v<CuAllocation, CUmemGenericAllocationHandle>);
static_assert(sizeof(CuUuid) == sizeof(CUuuid));
static_assert(sizeof(CuAllocationProp) == sizeof(CUmemAllocationProp));
static_assert(offsetof(CuAllocationProp, type) == offsetof(CUmemAllocationProp, type));
static_assert(offsetof(CuAllocationProp, requested_handle_types) ==
              offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(CuAllocationProp, location.type) ==
              offsetof(CUmemAllocationProp, location.type));
static_assert(offsetof(CuAllocationProp, location.id) ==
              offsetof(CUmemAllocationProp, location.id));
static_assert(offsetof(CuAllocationProp, win32_handle_metadata) ==
              offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(CuAllocationProp, alloc_flags.usage) ==
              offsetof(CUmemAllocationProp, allocFlags.usage));

}  // namespace
}  // namespace folio::manager::abi
