// This header has the device, its streams and events, and copies on them. It includes no CUDA
// header.
//
// INTERNAL carries CUDA's words. Faults of a stream's work are returned by the calls that wait for
// the stream.
#ifndef FOLIO_KERNELS_CUDA_RUNTIME_STREAM_H_
#define FOLIO_KERNELS_CUDA_RUNTIME_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device_info.h"
#include "kernels/cuda/types.h"

struct CUevent_st;

namespace folio::kernels::cuda {

// Makes GPU `ordinal` the calling thread's device. FAILED_PRECONDITION says whether there is no
// driver, no such device, or a device that is too old for the kernels.
absl::StatusOr<DeviceInfo> UseDevice(int ordinal);
inline constexpr int kMinMajor = 8;  // compute capability 8.0

// Every GPU that this process sees, by ordinal. FAILED_PRECONDITION says whether there is no driver
// or no GPU.
absl::StatusOr<std::vector<std::string>> DeviceUuids();

// Get and set the calling thread's device. Every thread begins with device 0.
int CurrentDevice();
absl::Status BindDevice(int ordinal);

// A stream that does not wait for the default stream.
class OwnedStream {
 public:
  static absl::StatusOr<OwnedStream> Create();
  OwnedStream(OwnedStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  OwnedStream& operator=(OwnedStream&&) = delete;
  // Waits for what is enqueued.
  ~OwnedStream();

  Stream get() const { return stream_; }

 private:
  explicit OwnedStream(Stream stream) : stream_(stream) {}
  Stream stream_;
};

// Calls one function after another until one fails, and returns its error.
absl::Status RunAll(std::initializer_list<absl::FunctionRef<absl::Status()>> works);

// Waits until the stream has done its work.
absl::Status WaitFor(Stream stream);

// A place in a stream.
class Event {
 public:
  static absl::StatusOr<Event> Create();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event();

  absl::Status Record(Stream stream);
  // Waits until the stream has passed the event. Returns at once if it was never recorded.
  absl::Status Wait() const;

 private:
  explicit Event(CUevent_st* event) : event_(event) {}
  CUevent_st* event_;
};

// Enqueues a copy. The host's memory is page-locked and stays untouched until the stream has
// passed.
absl::Status CopyToDevice(Stream stream, void* to, const void* from, size_t bytes);
absl::Status CopyToHost(Stream stream, void* to, const void* from, size_t bytes);
// Enqueues a copy within the device of `rows` times `row_bytes`, which lie `stride` bytes apart.
absl::Status CopyRows(Stream stream, void* to, size_t to_stride, const void* from,
                      size_t from_stride, size_t row_bytes, size_t rows);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_RUNTIME_STREAM_H_
