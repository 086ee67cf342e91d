// Steps of a GPU as graphs, by their shape: the first step of a shape is enqueued kernel by kernel,
// so that what it loads and chooses is there; the second is recorded; it and all after it are one
// launch each.
//
// A graph has its kernels' arguments in it. The shape names every one of them that is not the same
// in all steps, so that a graph can only do what the step would have done.
#ifndef FOLIO_SERVICES_MODEL_CUDA_GRAPHS_H_
#define FOLIO_SERVICES_MODEL_CUDA_GRAPHS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/memory.h"
#include "services/model/cuda_executor.h"
#include "services/model/cuda_sampling.h"
#include "services/model/cuda_step.h"
#include "services/model/cuda_transformer.h"

namespace folio::model {

// What the kernels of a padded step are told that is not the same in all steps.
std::vector<uint64_t> ShapeOf(const LaidStep& step, const CudaTransformer::Plans& plans,
                              const CudaSampling& sampling);

// Not thread-safe. The stream has done everything when this is destroyed.
class CudaGraphs {
 public:
  using Shape = std::vector<uint64_t>;

  CudaGraphs(kernels::cuda::DeviceMemory& memory, kernels::cuda::Stream stream, bool enabled)
      : memory_(memory), stream_(stream), enabled_(enabled) {}

  // Has the stream do what `enqueue` puts onto it. Where no graph can be made of it, for whatever
  // reason, that is said once in the log, and it is enqueued as it is. Errors are those of
  // `enqueue`, and INTERNAL where a graph cannot be launched.
  absl::Status Run(const Shape& shape, absl::FunctionRef<absl::Status()> enqueue);
  // The same for what is of no shape: enqueues it.
  absl::Status Pass(absl::FunctionRef<absl::Status()> enqueue);

  const GraphCounts& counts() const { return counts_; }

 private:
  // Where shapes keep changing, all are forgotten now and then.
  static constexpr size_t kMostShapes = 128;

  struct Graph {
    kernels::cuda::Graph graph;
    kernels::cuda::DeviceCharge memory;
  };
  struct Known {
    std::optional<Graph> graph;
    bool refused = false;  // it was tried
  };
  absl::Status Record(const Shape& shape, Known& known, absl::FunctionRef<absl::Status()> enqueue);
  absl::Status Forget();

  kernels::cuda::DeviceMemory& memory_;
  const kernels::cuda::Stream stream_;
  const bool enabled_;
  std::map<Shape, Known> known_;
  GraphCounts counts_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_GRAPHS_H_
