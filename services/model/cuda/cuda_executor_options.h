// CudaExecutorOptions are the settings of an executor on a GPU.
#ifndef FOLIO_SERVICES_MODEL_CUDA_CUDA_EXECUTOR_OPTIONS_H_
#define FOLIO_SERVICES_MODEL_CUDA_CUDA_EXECUTOR_OPTIONS_H_

#include <cstdint>
#include <memory>

#include "services/model/cuda/cuda_communicator.h"

namespace folio::model {

struct CudaExecutorOptions {
  // Rows one step may have. Device memory for activations grows with it.
  uint32_t max_rows = 2048;
  // Run decode steps as CUDA graphs. In a group none does if some rank has this switched off.
  bool graphs = true;
  // Choose the algorithms of products by trying them when the executor is made. Otherwise
  // cuBLASLt's heuristic chooses, which is slower and the same each time.
  bool tune = true;
  // Serve rows that decode and products of few rows by kernels of our own, and add parts of
  // products by one. Otherwise FlashInfer and cuBLASLt serve all steps.
  bool decode_kernels = true;
  // With decode_kernels: products of at most so many rows are those of few rows. 0 leaves it to
  // CudaProducts.
  uint32_t own_rows = 0;
  // Set for one rank of a group. The model and the pool are then the rank's shard, and all ranks
  // enqueue the same steps in the same order. Only the leader samples and fills outputs. Null for a
  // worker of one rank.
  std::shared_ptr<CudaCommunicator> communicator = nullptr;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_CUDA_EXECUTOR_OPTIONS_H_
