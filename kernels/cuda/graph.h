// Work of a stream, recorded once and then done by one call: starting a kernel by itself costs the
// host and the device microseconds, and a decode step has hundreds of small ones. No CUDA header is
// needed to include this.
#ifndef FOLIO_KERNELS_CUDA_GRAPH_H_
#define FOLIO_KERNELS_CUDA_GRAPH_H_

#include <cstddef>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/types.h"

struct CUgraphExec_st;

namespace folio::kernels::cuda {

// Arguments are recorded by value, pointers too: what they point at stays where it is as long as
// the graph lives, and what lies there may change between launches. Not thread-safe.
class Graph {
 public:
  // Records what `enqueue` puts onto `stream`, a stream of its own; none of it is done now. In
  // between the calling thread waits for nothing, allocates nothing of the device and copies only
  // from and to page-locked memory; what does so fails, and the graph with it. Kernels that are
  // started for the first time may load code, so let `enqueue` run once before.
  //
  // Any error leaves the stream as it was: what comes from `enqueue`, else INTERNAL with CUDA's
  // words.
  static absl::StatusOr<Graph> Capture(Stream stream, absl::FunctionRef<absl::Status()> enqueue);

  Graph(Graph&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)), bytes_(other.bytes_) {}
  Graph& operator=(Graph&&) = delete;
  // The device has done all that was launched.
  ~Graph();

  // Enqueues all of it. INTERNAL with CUDA's words.
  absl::Status Launch(Stream stream) const;

  // By how much the device had less memory once the graph was made. CUDA takes it in blocks, which
  // several graphs share.
  size_t bytes() const { return bytes_; }

 private:
  Graph(CUgraphExec_st* graph, size_t bytes) : graph_(graph), bytes_(bytes) {}
  CUgraphExec_st* graph_;
  size_t bytes_;
};

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_GRAPH_H_
