// CudaGraphs runs a GPU's steps as graphs, by their shape. The first step of a shape is enqueued
// kernel by kernel, because it may load modules and choose algorithms, which cannot be recorded.
// The second one is recorded. It and all later ones are one launch each.
//
// A graph contains its kernels' arguments. The shape lists every argument that differs between
// steps, so that a graph can only do what the step would have done.
//
// In a group of ranks the graphs contain collectives, which NCCL wants captured on all ranks or on
// none. The ranks run the same steps, and steps that have one shape on a rank have one shape on all
// of them, so all come to record and to forget a shape at the same step without a word. They vote
// when they record one: before, whether all may, and after, whether all have. If one has not, the
// steps of this shape run kernel by kernel on all ranks.
#ifndef FOLIO_SERVICES_MODEL_CUDA_CUDA_GRAPHS_H_
#define FOLIO_SERVICES_MODEL_CUDA_CUDA_GRAPHS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/cuda/runtime/memory.h"
#include "services/model/cuda/cuda_communicator.h"
#include "services/model/cuda/cuda_sampling.h"
#include "services/model/cuda/cuda_step.h"
#include "services/model/cuda/cuda_transformer.h"
#include "services/model/cuda/graph_counts.h"

namespace folio::model {

// The kernels' arguments in a padded step, as far as they differ between steps.
std::vector<uint64_t> ShapeOf(const StepInputs& step, const CudaTransformer::Plans& plans,
                              const CudaSampling& sampling);

// Not thread-safe. The stream must have drained before this is destroyed.
class CudaGraphs {
 public:
  using Shape = std::vector<uint64_t>;

  // `communicator` is null for a worker of one rank, and outlives this otherwise. `enabled` may
  // differ between ranks.
  CudaGraphs(kernels::cuda::DeviceMemory& memory, kernels::cuda::Stream stream, bool enabled,
             CudaCommunicator* communicator = nullptr)
      : memory_(memory), stream_(stream), enabled_(enabled), communicator_(communicator) {}

  // Runs what `enqueue` puts onto the stream. If it cannot be made a graph, the reason is logged
  // once and it is enqueued kernel by kernel. Errors are those of `enqueue` and of the
  // communicator, and INTERNAL if a graph cannot be launched.
  absl::Status Run(const Shape& shape, absl::FunctionRef<absl::Status()> enqueue);
  // Enqueues work that has no shape, and counts it.
  absl::Status Pass(absl::FunctionRef<absl::Status()> enqueue);

  const GraphCounts& counts() const { return counts_; }

 private:
  // Once there are more shapes than this, all are forgotten: graphs of shapes that do not come back
  // would fill the device's memory.
  static constexpr size_t kMaxShapes = 128;

  struct Graph {
    kernels::cuda::Graph graph;
    kernels::cuda::DeviceCharge memory;
  };
  struct Known {
    std::optional<Graph> graph;
    bool refused = false;  // it was tried
  };
  // Leaves a graph or a refusal in `known`. Errors are the communicator's and the device's.
  absl::Status Record(const Shape& shape, Known& known, absl::FunctionRef<absl::Status()> enqueue);
  absl::StatusOr<Graph> Make(absl::FunctionRef<absl::Status()> enqueue);
  // The objections of all ranks to recording the shape; empty if there is none.
  absl::StatusOr<std::string> Objections(const Shape& shape, const std::string& own);
  // Waits for the stream, within the group's time limit.
  absl::Status Drain();
  absl::Status Forget();

  kernels::cuda::DeviceMemory& memory_;
  const kernels::cuda::Stream stream_;
  const bool enabled_;
  CudaCommunicator* const communicator_;
  std::map<Shape, Known> known_;
  uint64_t votes_ = 0;
  GraphCounts counts_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_CUDA_GRAPHS_H_
