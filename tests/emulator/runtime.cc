#include "tests/emulator/runtime.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulator/blocks.h"
#include "tests/emulator/streams.h"
#include "tests/manager/fake_gpu/knobs.h"

struct CUevent_st {
  CUstream_st* stream = nullptr;
  uint64_t work = 0;  // of the stream, that it comes after
};

namespace folio::emulate {
namespace {

constexpr int kPattern = 0xee;

// Ranks of a group may be threads. Guards what follows.
std::recursive_mutex memory_mutex;

std::map<void*, size_t>& Allocations() {
  static std::map<void*, size_t> allocations;
  return allocations;
}
// Page-locked host memory.
std::map<char*, size_t>& Locked() {
  static std::map<char*, size_t> locked;
  return locked;
}

thread_local uint64_t calls_made = 0;

// The error of a call that must not be recorded.
cudaError_t Forbidden() {
  BreakRecording();
  return recording == nullptr ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
}

bool IsLocked(const void* memory, size_t bytes) {
  const std::lock_guard<std::recursive_mutex> lock(memory_mutex);
  auto* const first = static_cast<char*>(const_cast<void*>(memory));
  const auto next = Locked().upper_bound(first);
  if (next == Locked().begin()) return false;
  const auto& [begin, size] = *std::prev(next);
  return first + bytes <= begin + size;
}

void WaitWhileItHangs() {
  static const std::string file = folio::testing::fake_gpu::Knob("FAKE_GPU_HANG");
  while (!file.empty() && access(file.c_str(), F_OK) == 0) usleep(10'000);
}

// Does the stream's work until `upto` of it is done.
void RunUpTo(CUstream_st* stream, uint64_t upto) {
  WaitWhileItHangs();
  while (stream->enqueued - stream->work.size() < upto) {
    const std::function<void()> next = std::move(stream->work.front());
    stream->work.pop_front();
    next();
  }
}

}  // namespace

void Enqueue(CUstream_st* stream, std::function<void()> work) {
  if (Recorded(stream)) return stream->recorded->work.push_back(std::move(work));
  ++calls_made;
  if (stream == nullptr) return work();
  stream->work.push_back(std::move(work));
  ++stream->enqueued;
}

uint64_t CallsMade() { return calls_made; }

void BreakRecording() {
  if (recording != nullptr) recording->recorded->broken = true;
}

size_t AllocatedBytes() {
  const std::lock_guard<std::recursive_mutex> lock(memory_mutex);
  size_t sum = GraphBytes();
  for (const auto& [memory, bytes] : Allocations()) sum += bytes;
  return sum;
}

}  // namespace folio::emulate

namespace emulate = folio::emulate;

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (emulate::Forbidden() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard<std::recursive_mutex> lock(emulate::memory_mutex);
  if (emulate::AllocatedBytes() + bytes > emulate::kMemoryBytes) return cudaErrorMemoryAllocation;
  *memory = emulate::NewBlock(bytes);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*memory, emulate::kPattern, bytes);
  emulate::Allocations()[*memory] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (emulate::Forbidden() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard<std::recursive_mutex> lock(emulate::memory_mutex);
  if (memory != nullptr && emulate::Allocations().erase(memory) == 0) return cudaErrorInvalidValue;
  emulate::FreeBlock(memory);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  if (emulate::Forbidden() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  std::memset(memory, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = emulate::kMemoryBytes;
  *free = *total - emulate::AllocatedBytes();
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  if (emulate::Forbidden() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*memory, emulate::kPattern, bytes);
  return cudaHostRegister(*memory, bytes, 0);
}

cudaError_t cudaFreeHost(void* memory) {
  if (emulate::Forbidden() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  const cudaError_t error = memory == nullptr ? cudaSuccess : cudaHostUnregister(memory);
  if (error == cudaSuccess) std::free(memory);
  return error;
}

cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
  if (emulate::Forbidden() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard<std::recursive_mutex> lock(emulate::memory_mutex);
  const bool fresh = emulate::Locked().emplace(static_cast<char*>(memory), bytes).second;
  return fresh ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaHostUnregister(void* memory) {
  if (emulate::Forbidden() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard<std::recursive_mutex> lock(emulate::memory_mutex);
  const bool held = emulate::Locked().erase(static_cast<char*>(memory)) > 0;
  return held ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  const std::lock_guard<std::recursive_mutex> lock(emulate::memory_mutex);
  auto* const address = static_cast<char*>(host);
  const auto next = emulate::Locked().upper_bound(address);
  if (next == emulate::Locked().begin()) return cudaErrorInvalidValue;
  const auto& [first, bytes] = *std::prev(next);
  if (address >= first + bytes) return cudaErrorInvalidValue;
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  if (emulate::Forbidden() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  if (bytes > 0) std::memcpy(to, from, bytes);  // nothing may be copied from nowhere
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const void* host = kind == cudaMemcpyHostToDevice ? from : to;
  const bool has_host = kind != cudaMemcpyDeviceToDevice;
  if (emulate::Recorded(stream) && has_host && !emulate::IsLocked(host, bytes)) {
    return emulate::Forbidden();
  }
  emulate::Enqueue(stream, [=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidValue;
  if (kind != cudaMemcpyDeviceToDevice) return cudaErrorInvalidValue;  // all that is asked for
  emulate::Enqueue(stream, [=] {
    for (size_t row = 0; row < height; ++row) {
      std::memcpy(static_cast<char*>(to) + row * to_pitch,
                  static_cast<const char*>(from) + row * from_pitch, width);
    }
  });
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (emulate::Forbidden() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  emulate::RunUpTo(stream, stream->enqueued);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (emulate::Forbidden() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  if (emulate::faults.wait != cudaSuccess) return emulate::faults.wait;
  if (stream != nullptr) emulate::RunUpTo(stream, stream->enqueued);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (emulate::Forbidden() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (emulate::Forbidden() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  *event = {stream, stream == nullptr ? 0 : stream->enqueued};
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (emulate::Forbidden() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
  if (emulate::faults.wait != cudaSuccess) return emulate::faults.wait;
  if (event->stream != nullptr) emulate::RunUpTo(event->stream, event->work);
  return cudaSuccess;
}
