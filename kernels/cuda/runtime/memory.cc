#include "kernels/cuda/runtime/memory.h"

#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace folio::kernels::cuda {
namespace {

std::string Size(size_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

absl::Status DoesNotFit(size_t bytes, absl::string_view what, absl::string_view where) {
  return absl::ResourceExhaustedError(
      absl::StrCat("GPU memory: ", what, " (", Size(bytes), ") did not fit: ", where));
}

}  // namespace

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  cudaFree(data_);
  owner_->taken_ -= bytes_;
}

absl::Status Zero(const DeviceBuffer& buffer) {
  cudaError_t error = cudaMemset(buffer.as<void>(), 0, buffer.bytes());
  if (error == cudaSuccess) error = cudaStreamSynchronize(nullptr);
  return CudaStatus("memory was not cleared", error);
}

DeviceCharge::~DeviceCharge() {
  if (bytes_ > 0) owner_->taken_ -= bytes_;
}

absl::StatusOr<DeviceCharge> DeviceMemory::Charge(size_t bytes, absl::string_view what) {
  if (absl::Status status = CheckBudget(bytes, what); !status.ok()) return status;
  DeviceCharge charge;
  charge.owner_ = this;
  charge.bytes_ = bytes;
  taken_ += bytes;
  return charge;
}

absl::Status DeviceMemory::CheckBudget(size_t bytes, absl::string_view what) const {
  if (budget_ == 0 || (bytes <= budget_ && taken_ <= budget_ - bytes)) return absl::OkStatus();
  return DoesNotFit(bytes, what,
                    absl::StrCat(Size(taken_), " of the ", Size(budget_), " allowed are taken"));
}

absl::Status DeviceMemory::CheckRoom(size_t bytes, absl::string_view what) const {
  if (absl::Status status = CheckBudget(bytes, what); !status.ok()) return status;
  size_t free = 0;
  size_t total = 0;
  const cudaError_t error = cudaMemGetInfo(&free, &total);
  if (error != cudaSuccess) {
    return absl::InternalError(
        absl::StrCat("the device does not say its memory: ", cudaGetErrorString(error)));
  }
  if (bytes > free) {
    return DoesNotFit(bytes, what,
                      absl::StrCat(Size(free), " of the device's ", Size(total), " are free"));
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceBuffer> DeviceMemory::Allocate(size_t bytes, absl::string_view what) {
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  if (absl::Status room = CheckRoom(bytes, what); !room.ok()) return room;
  const cudaError_t error = cudaMalloc(&buffer.data_, bytes);
  if (error != cudaSuccess) {
    buffer.data_ = nullptr;
    cudaGetLastError();  // clears the error, which later work must not report
    return DoesNotFit(bytes, what, cudaGetErrorString(error));
  }
  buffer.owner_ = this;
  buffer.bytes_ = bytes;
  taken_ += bytes;
  return buffer;
}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(device_, other.device_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

absl::StatusOr<PinnedBuffer> PinnedBuffer::Allocate(size_t bytes, absl::string_view what) {
  PinnedBuffer buffer;
  if (bytes == 0) return buffer;
  cudaError_t error =
      cudaHostAlloc(&buffer.data_, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  if (error != cudaSuccess) {
    buffer.data_ = nullptr;
  } else {
    error = cudaHostGetDevicePointer(&buffer.device_, buffer.data_, 0);
  }
  if (error != cudaSuccess) {
    cudaGetLastError();
    return absl::ResourceExhaustedError(absl::StrCat("page-locked memory: ", what, " (",
                                                     Size(bytes),
                                                     ") did not fit: ", cudaGetErrorString(error)));
  }
  buffer.bytes_ = bytes;
  return buffer;
}

RegisteredMemory& RegisteredMemory::operator=(RegisteredMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(device_, other.device_);
  return *this;
}

RegisteredMemory::~RegisteredMemory() {
  if (data_ != nullptr) cudaHostUnregister(data_);
}

absl::StatusOr<RegisteredMemory> RegisteredMemory::Register(void* data, size_t bytes,
                                                            absl::string_view what) {
  RegisteredMemory memory;
  cudaError_t error =
      cudaHostRegister(data, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (error == cudaSuccess) {
    memory.data_ = data;
    error = cudaHostGetDevicePointer(&memory.device_, data, 0);
  }
  if (error != cudaSuccess) {
    cudaGetLastError();
    return absl::InternalError(absl::StrCat("the device cannot reach ", what, " (", Size(bytes),
                                            "): ", cudaGetErrorString(error)));
  }
  return memory;
}

}  // namespace folio::kernels::cuda
