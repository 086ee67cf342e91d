// A device, its streams and events, and copies on them. No CUDA header is needed to include this.
//
// INTERNAL carries CUDA's words. A stream's own faults come with whatever waits for it.
#ifndef FOLIO_KERNELS_CUDA_STREAM_H_
#define FOLIO_KERNELS_CUDA_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/types.h"

struct CUevent_st;

namespace folio::kernels::cuda {

struct DeviceFacts {
  std::string name;
  std::string uuid;          // "GPU-...", the same in every process
  int major = 0, minor = 0;  // compute capability
  uint32_t processors = 0;   // multiprocessors
  size_t free_bytes = 0, total_bytes = 0;
};

// Makes GPU `ordinal` the calling thread's device. FAILED_PRECONDITION: there is no driver, no such
// device, or one older than what the kernels are compiled for; it says which.
absl::StatusOr<DeviceFacts> UseDevice(int ordinal);
inline constexpr int kLeastMajor = 8;  // compute capability 8.0

// Of each GPU that this process sees, by ordinal. FAILED_PRECONDITION: no driver, or no GPU; it
// says which.
absl::StatusOr<std::vector<std::string>> DeviceUuids();

// The calling thread's device, and another one to be that from now on. Every thread begins with 0.
int CurrentDevice();
absl::Status BindDevice(int ordinal);

// A stream that does not wait for the default one.
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

// Calls one after another until one fails: for what makes no sense without what comes before it.
absl::Status InOrder(std::initializer_list<absl::FunctionRef<absl::Status()>> works);

// Until the stream has done what is enqueued.
absl::Status WaitFor(Stream stream);

// A place in a stream.
class Event {
 public:
  static absl::StatusOr<Event> Create();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event();

  absl::Status Record(Stream stream);
  // Until the stream has passed it; at once if it was never recorded.
  absl::Status Wait() const;

 private:
  explicit Event(CUevent_st* event) : event_(event) {}
  CUevent_st* event_;
};

// Enqueued; the host's memory is page-locked, and nobody touches it before the stream has passed.
absl::Status CopyToDevice(Stream stream, void* to, const void* from, size_t bytes);
absl::Status CopyToHost(Stream stream, void* to, const void* from, size_t bytes);
// From one place of the device to another, enqueued: `rows` times `row_bytes`, which lie `stride`
// bytes apart.
absl::Status CopyRows(Stream stream, void* to, size_t to_stride, const void* from,
                      size_t from_stride, size_t row_bytes, size_t rows);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_STREAM_H_
