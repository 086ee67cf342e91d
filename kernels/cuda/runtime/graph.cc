#include "kernels/cuda/runtime/graph.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "absl/strings/string_view.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace folio::kernels::cuda {
namespace {

// Clears the error of an attempt, so that later work does not report it.
absl::Status Tried(absl::string_view what, cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
  return CudaStatus(what, error);
}

// Hundreds of kernels take a few MiB. A larger difference is memory that other processes took.
constexpr size_t kMaxBytes = size_t{32} << 20;

size_t FreeBytes() {
  size_t free = 0;
  size_t total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}

// The recording, which is not needed any more once there is a graph that can be launched.
class Recording {
 public:
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }

  absl::Status Record(Stream stream, absl::FunctionRef<absl::Status()> enqueue) {
    // Other threads may allocate meanwhile.
    const cudaError_t begun = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (begun != cudaSuccess) return Tried("a stream was not recorded", begun);
    absl::Status status = enqueue();
    status.Update(Tried("a recording failed", cudaStreamEndCapture(stream, &graph_)));
    return status;
  }
  cudaGraph_t get() const { return graph_; }

 private:
  cudaGraph_t graph_ = nullptr;
};

}  // namespace

absl::StatusOr<Graph> Graph::Capture(Stream stream, absl::FunctionRef<absl::Status()> enqueue) {
  Recording recording;
  if (absl::Status status = recording.Record(stream, enqueue); !status.ok()) return status;
  const size_t before = FreeBytes();
  cudaGraphExec_t made = nullptr;
  absl::Status status =
      Tried("a graph was not made", cudaGraphInstantiate(&made, recording.get(), 0));
  if (!status.ok()) return status;
  Graph graph(made, 0);
  // Uploads now, so that launches need no memory.
  status = Tried("a graph was not loaded", cudaGraphUpload(made, stream));
  if (!status.ok()) return status;
  const size_t after = FreeBytes();
  graph.bytes_ = before > after ? std::min(before - after, kMaxBytes) : 0;
  return graph;
}

Graph::~Graph() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
}

absl::Status Graph::Launch(Stream stream) const {
  return CudaStatus("a graph was not started", cudaGraphLaunch(graph_, stream));
}

}  // namespace folio::kernels::cuda
