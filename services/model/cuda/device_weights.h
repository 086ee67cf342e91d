// DeviceWeights is a model's weights in a GPU's memory, in the layout that products read: row-major
// bf16. The matrices of layers may be E4M3 with a scale for each row, or quantised as the source
// has them. The embedding and the output matrix are always bf16: they are a small part of a large
// model's weights, and an error of a logit changes the next token, with no later layer to average
// it out.
#ifndef FOLIO_SERVICES_MODEL_CUDA_DEVICE_WEIGHTS_H_
#define FOLIO_SERVICES_MODEL_CUDA_DEVICE_WEIGHTS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/types.h"
#include "kernels/threads/thread_pool.h"
#include "services/model/family/model_config.h"
#include "services/model/source/model_source.h"
#include "services/model/source/stored_matrices.h"
#include "services/model/source/tensor_reader.h"

namespace folio::model {

// The matrices are bf16 or E4M3, all of one type. Those of bf16 may be quantised, and their parts
// are then here, so that a layer stays at its place.
struct DeviceLayerWeights {
  const float* attention_norm = nullptr;  // [hidden]
  kernels::cuda::ConstTensor qkv;         // [(heads + 2 kv_heads) * head_dim, hidden]
  const float* qkv_bias = nullptr;        // one for each row of qkv, or null
  const float* query_norm = nullptr;      // [head_dim], or null, and so is key_norm
  const float* key_norm = nullptr;
  const float* post_attention_norm = nullptr;  // [hidden], or null, and so is post_ffn_norm
  const float* post_ffn_norm = nullptr;
  kernels::cuda::ConstTensor out;      // [hidden, heads * head_dim]
  const float* ffn_norm = nullptr;     // [hidden]
  kernels::cuda::ConstTensor gate_up;  // [2 ffn, hidden], the gate first
  kernels::cuda::ConstTensor down;     // [hidden, ffn]
  kernels::cuda::QuantizedParts qkv_parts, out_parts, gate_up_parts, down_parts;
};

// Immutable once loaded. The memory it is made from outlives it.
struct DeviceWeights {
  ModelConfig config;
  kernels::cuda::ConstTensor embedding;  // [vocab, hidden]
  kernels::cuda::ConstTensor output;     // [outputs, hidden]; the embedding itself where tied
  const float* final_norm = nullptr;     // [hidden]
  std::vector<DeviceLayerWeights> layers;
  HeldMatrices held;
  kernels::cuda::DeviceBuffer memory;  // holds them all
};

// Elements from one row of a bf16 matrix to the next: rows begin at multiples of 16 bytes.
constexpr size_t DeviceStride(size_t cols) { return (cols + 7) / 8 * 8; }

// A model whose tensors are written on the device itself, for benchmarks: random numbers of a large
// model's shapes need no file and no copy.
class DeviceSource : public ModelSource {
 public:
  // Writes all of `weights`, which have their places, and returns when it is done.
  virtual absl::Status Fill(const DeviceWeights& weights) const = 0;
};

// Reads every tensor, layers in parallel on `threads` threads, and sends it to the current device
// through page-locked memory, of which one half is filled while the other is on its way. A
// DeviceSource is only asked to fill them.
// RESOURCE_EXHAUSTED says what the weights want and what there is, before anything is read; the
// source's own errors pass through. INVALID_ARGUMENT names a tensor of the wrong size, or one that
// products of E4M3 do not serve, UNIMPLEMENTED a feature that CudaTransformer does not compute.
// `type` is that of the matrices of layers, bf16 or E4M3. With bf16 they may stay as they are
// stored.
absl::StatusOr<std::unique_ptr<const DeviceWeights>> LoadDeviceWeights(
    const ModelSource& source, kernels::cuda::DataType type, HeldWeights held,
    kernels::cuda::DeviceMemory& memory, kernels::ThreadPool& threads,
    const LoadProgress& progress = nullptr);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_DEVICE_WEIGHTS_H_
