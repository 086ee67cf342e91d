// This header has the attention of rows that decode, one of each sequence, over its pages. It reads
// keys and values straight into the registers that tensor cores take them from, so that the speed
// of memory alone bounds it. Its grid depends on the number of rows alone, and not on lengths,
// so that nothing is planned on the host and a graph serves contexts of any length.
//
// Long contexts are split over several blocks, and the last of them adds the parts in their order.
// The result of a row depends on that row and on the number of rows. Calls and errors are as in
// kernels/cuda/ops/ops.h.
#ifndef FOLIO_KERNELS_CUDA_OPS_DECODE_ATTENTION_H_
#define FOLIO_KERNELS_CUDA_OPS_DECODE_ATTENTION_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/types.h"
#include "kernels/views.h"

namespace folio::kernels::cuda {

// Whether the shape is served: bf16 pages of a multiple of 16 tokens, heads of 64, 128 or 256,
// and at most eight query heads for a KV head.
bool ServesDecodeAttention(const AttentionShape& shape, const DevicePool& pool);

// One layer's tables on the device.
struct DecodeTables {
  const int32_t* pages = nullptr;        // all rows' tables, one after another
  const int32_t* page_starts = nullptr;  // [rows + 1] in `pages`
  const int32_t* last_tokens = nullptr;  // [rows] in a row's last page, 1 to page_tokens
  uint32_t window = 0;  // the latest tokens, which a row attends to alone (0: to all)
};

// Device memory for the parts of split contexts. It begins with the counters of arrived blocks,
// which are 0 before the first call and after each.
struct DecodeAttentionSpace {
  void* memory = nullptr;
  uint32_t processors = 0;  // multiprocessors of the GPU
};
size_t DecodeAttentionBytes(const AttentionShape& shape, uint32_t processors);

// out[r] = softmax(q[r] * keys^T / sqrt(head_dim)) * values for each head, over the tokens of row
// r's pages up to last_tokens, or over the latest `window` of these. q and out are bf16 [rows,
// heads * head_dim]. Every row has at least one page.
absl::Status DecodeAttention(Stream stream, ConstTensor q, const DecodeTables& tables,
                             const AttentionShape& shape, const DevicePool& pool,
                             const DecodeAttentionSpace& space, Tensor out);

// Rows whose tokens are not in their pages yet.
struct DecodeRows {
  ConstTensor qkv;                // float32 [rows, (heads + 2 * kv_heads) * head_dim]
  RopeTable rope;                 // on the device
  DeviceArray<AppendSlot> slots;  // [rows], of which each is the last token of the row's pages
};

// RopeAppendScore and DecodeAttention of its queries by one kernel, with the same results. It saves
// a step of few rows the time between two kernels in each layer. Queries are stored nowhere.
absl::Status AppendDecodeAttention(Stream stream, const DecodeRows& in, const DecodeTables& tables,
                                   const AttentionShape& shape, const DevicePool& pool,
                                   const DecodeAttentionSpace& space, Tensor out);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_OPS_DECODE_ATTENTION_H_
