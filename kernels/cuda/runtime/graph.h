// Graph is work of a stream that is recorded once and then launched by one call. Starting a kernel
// by itself costs the host and the device microseconds, and a decode step has hundreds of small
// ones. This header includes no CUDA header.
#ifndef FOLIO_KERNELS_CUDA_RUNTIME_GRAPH_H_
#define FOLIO_KERNELS_CUDA_RUNTIME_GRAPH_H_

#include <cstddef>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/types.h"

struct CUgraphExec_st;

namespace folio::kernels::cuda {

// Arguments are recorded by value, pointers too. The memory that they point at stays where it is as
// long as the graph lives, and its contents may change between launches. Not thread-safe.
class Graph {
 public:
  // Records the work that `enqueue` puts onto `stream`, without doing any of it. While it records,
  // the calling thread must not wait, must not allocate on the device and may copy only from and to
  // page-locked memory. A call that breaks this fails, and so does the recording. Kernels that are
  // started for the first time may load code, so run `enqueue` once before.
  //
  // An error leaves the stream as it was. It is the error of `enqueue`, or INTERNAL with CUDA's
  // words.
  static absl::StatusOr<Graph> Capture(Stream stream, absl::FunctionRef<absl::Status()> enqueue);

  Graph(Graph&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)), bytes_(other.bytes_) {}
  Graph& operator=(Graph&&) = delete;
  // Precondition: the device has done all launches.
  ~Graph();

  // Enqueues all of it. INTERNAL with CUDA's words.
  absl::Status Launch(Stream stream) const;

  // Bytes of device memory that CUDA took to make the graph. It takes them in blocks that several
  // graphs share.
  size_t bytes() const { return bytes_; }

 private:
  Graph(CUgraphExec_st* graph, size_t bytes) : graph_(graph), bytes_(bytes) {}
  CUgraphExec_st* graph_;
  size_t bytes_;
};

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_RUNTIME_GRAPH_H_
