// GraphCounts says how an executor's steps have run so far: as CUDA graphs, or kernel by kernel.
#ifndef FOLIO_SERVICES_MODEL_CUDA_GRAPH_COUNTS_H_
#define FOLIO_SERVICES_MODEL_CUDA_GRAPH_COUNTS_H_

#include <cstddef>
#include <cstdint>

namespace folio::model {

struct GraphCounts {
  uint64_t recorded = 0;  // graphs that were made
  uint64_t replayed = 0;  // steps that ran as a graph
  uint64_t passed = 0;    // steps that ran kernel by kernel
  uint64_t refused = 0;   // shapes for which no graph could be made
  size_t bytes = 0;       // device memory that the graphs take, as far as CUDA shows it
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_GRAPH_COUNTS_H_
