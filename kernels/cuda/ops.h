// The row operations of a Llama-family transformer on a GPU, and the gathering of survivors. Twins
// of kernels/cpu/ops.h, which says what each computes; here is what differs.
//
// Every call enqueues kernels on the stream and returns: it allocates nothing, waits for nothing
// and may be captured in a graph. Arrays stay with the caller until the stream has passed. Any
// thread may call; a stream's order is the caller's business. The row rule holds: what is computed
// for a row depends on that row's inputs alone, to the bit.
//
// INVALID_ARGUMENT names a shape or type that is not served, before anything was enqueued; INTERNAL
// carries CUDA's words when a kernel could not be started.
#ifndef FOLIO_KERNELS_CUDA_OPS_H_
#define FOLIO_KERNELS_CUDA_OPS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/types.h"
#include "kernels/views.h"

namespace folio::kernels::cuda {

// out[r] = embedding[ids[r] - first_id], as float32. A row whose id is not in the table becomes
// zeros, so that ranks which hold a part of the vocabulary each can add theirs up. embedding
// [vocab, hidden] bf16 or fp16; out [ids.size, hidden] float32.
absl::Status Embed(Stream stream, ConstTensor embedding, uint32_t first_id,
                   DeviceArray<uint32_t> ids, Tensor out);

// hidden += delta, then out = hidden / sqrt(mean(hidden^2) + eps) * weight, in one pass. hidden
// [rows, cols] float32; delta of any type, none where its data is null; weight [cols] float32; out
// bf16 or fp16.
absl::Status AddRmsNorm(Stream stream, Tensor hidden, ConstTensor delta, const float* weight,
                        float eps, Tensor out);

// out = hidden / sqrt(mean(hidden^2) + eps) * weight - rounded: what AddRmsNorm lost when it
// rounded the same rows. `rounded` and out bf16 or fp16.
absl::Status RoundingLoss(Stream stream, ConstTensor hidden, const float* weight, float eps,
                          ConstTensor rounded, Tensor out);

// out = silu(gate) * up. gate_up [rows, 2 n], gate's columns first, float32 or out's type; out
// [rows, n] bf16 or fp16.
absl::Status SwiGlu(Stream stream, ConstTensor gate_up, Tensor out);

// What one batch does to the pages of a layer, as CpuOps::RopeAppendScore: turns q and k, rounds k
// and v into the slots and writes their scores from what was rounded. qkv [rows, (heads + 2
// kv_heads) * head_dim] float32 or the pages' type; q [rows, heads * head_dim] of the pages' type.
// K, V and q are the same bits as the CPU's where qkv is float32. `rope` and `slots` lie on the
// device; positions are below rope.positions. A slot with kNoPage is left out, its q becomes zeros.
// Even head_dim, at most kMostKvHeads KV heads.
absl::Status RopeAppendScore(Stream stream, ConstTensor qkv, const AttentionShape& shape,
                             const RopeTable& rope, DeviceArray<AppendSlot> slots,
                             const DevicePool& pool, Tensor q);
inline constexpr uint32_t kMostKvHeads = 64;

// The survivors of one sequence in one layer: slot keep[i] of the table goes to slot i.
struct CompactRun {
  const uint32_t* pages = nullptr;  // the layer's table
  const uint32_t* keep = nullptr;   // ascending
  uint32_t kept = 0;
};

// Moves survivors together, in place, order kept: K, V and the first plane's scores. No two runs
// share a page. head_dim is a multiple of 8.
absl::Status Compact(Stream stream, DeviceArray<CompactRun> runs, const DevicePool& pool);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_OPS_H_
