// This header has the row operations of a transformer on a GPU, and the gathering of survivors.
// They are twins of those in kernels/cpu/ops.h, which defines the results. Comments here say what
// differs.
//
// Every call enqueues kernels on the stream and returns. It neither allocates nor waits, and may be
// captured in a graph. The caller keeps arrays until the stream has passed. Any thread may call,
// and the caller orders the calls of a stream. Operations are batch-invariant: the result of a row
// depends on that row's inputs alone, to the bit.
//
// INVALID_ARGUMENT names an unsupported shape or type, before anything was enqueued. INTERNAL
// carries CUDA's words when a kernel could not be started.
#ifndef FOLIO_KERNELS_CUDA_OPS_OPS_H_
#define FOLIO_KERNELS_CUDA_OPS_OPS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/types.h"
#include "kernels/views.h"

namespace folio::kernels::cuda {

// out[r] = scale * embedding[ids[r] - first_id], as float32. A row whose id is not in the table
// becomes zeros, so that ranks that each hold a part of the vocabulary can add their results.
// embedding is [vocab, hidden] bf16 or fp16, out is [ids.size, hidden] float32.
absl::Status Embed(Stream stream, ConstTensor embedding, uint32_t first_id,
                   DeviceArray<uint32_t> ids, float scale, Tensor out);

// hidden += delta, then out = hidden / sqrt(mean(hidden^2) + eps) * weight, in one pass. hidden is
// [rows, cols] float32, weight is [cols] float32 and out is bf16 or fp16. delta has any type, and
// nothing is added if its data is null.
absl::Status AddRmsNorm(Stream stream, Tensor hidden, ConstTensor delta, const float* weight,
                        float eps, Tensor out);

// hidden += added / sqrt(mean(added^2) + eps) * weight, row by row. hidden is [rows, cols] float32,
// weight is [cols] float32, and added is float32 or bf16.
absl::Status AddNormed(Stream stream, ConstTensor added, const float* weight, float eps,
                       Tensor hidden);

// out = hidden / sqrt(mean(hidden^2) + eps) * weight - rounded, which is the part that AddRmsNorm
// lost when it rounded the same rows. `rounded` has out's type, bf16 or fp16.
absl::Status RoundingLoss(Stream stream, ConstTensor hidden, const float* weight, float eps,
                          ConstTensor rounded, Tensor out);

// Each row of out becomes the codes and the scale of a row of in, as QuantizeRow of kernels/e4m3.h
// defines them, to the bit. in is bf16 or fp16, out is E4M3 of its shape with scales. The length of
// rows and both strides are multiples of 16.
absl::Status QuantizeRows(Stream stream, ConstTensor in, Tensor out);

// Each row += bias. rows is [n, cols] float32, bias is [cols] float32.
absl::Status AddBias(Stream stream, Tensor rows, const float* bias);

// The weights of the norms of each head's query and key, float32 [head_dim] each.
struct HeadNorms {
  const float* query = nullptr;
  const float* key = nullptr;
  float eps = 0;
};

// Makes each head x of the queries and keys x / sqrt(mean(x^2) + eps) * weight, in place. qkv is
// [rows, (heads + 2 kv_heads) * head_dim] float32, in which the values stay as they are.
absl::Status NormHeads(Stream stream, Tensor qkv, const AttentionShape& shape,
                       const HeadNorms& norms);

// Queries grow with their position.
struct QueryScale {
  float beta = 0;
  uint32_t original_context = 1;
};

// Multiplies the queries of each row by 1 + beta * ln(1 + floor(position / original_context)), in
// place. qkv is [slots.size, (heads + 2 kv_heads) * head_dim] float32, `slots` lie on the device.
absl::Status ScaleQueries(Stream stream, Tensor qkv, const AttentionShape& shape,
                          const QueryScale& scale, DeviceArray<AppendSlot> slots);

// out = activation(gate) * up. gate_up is [rows, 2 n] with gate's columns first, float32 or out's
// type. out is [rows, n] bf16 or fp16.
absl::Status Glu(Stream stream, Activation activation, ConstTensor gate_up, Tensor out);

// The twin of CpuOps::RopeAppendScore. It rotates q and k, rounds k and v into the slots and writes
// their scores from the rounded values. qkv is [rows, (heads + 2 kv_heads) * head_dim] float32 or
// the pages' type, q is [rows, heads * head_dim] of the pages' type. K, V and q have the same bits
// as the CPU's if qkv is float32. `rope` and `slots` lie on the device, and positions are below
// rope.positions. A slot with kNoPage is skipped and its q becomes zeros. head_dim is even, and
// there are at most kMaxKvHeads KV heads.
absl::Status RopeAppendScore(Stream stream, ConstTensor qkv, const AttentionShape& shape,
                             const RopeTable& rope, DeviceArray<AppendSlot> slots,
                             const DevicePool& pool, Tensor q);
inline constexpr uint32_t kMaxKvHeads = 64;

// The survivors of one sequence in one layer. Slot keep[i] of the table goes to slot i.
struct CompactItem {
  const uint32_t* pages = nullptr;  // the layer's table
  const uint32_t* keep = nullptr;   // ascending
  uint32_t kept = 0;
};

// Moves survivors together, in place and in order, with K, V and the first channel's scores. Two
// items never share a page. head_dim is a multiple of 8.
absl::Status Compact(Stream stream, DeviceArray<CompactItem> runs, const DevicePool& pool);

// Makes K and V of the pages zero. No page is named twice. head_dim is even.
absl::Status Clear(Stream stream, DeviceArray<uint32_t> pages, const DevicePool& pool);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_OPS_OPS_H_
