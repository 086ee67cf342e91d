// This header has attention of the plain family. For each row it computes the softmax over the
// visible slots and the weighted sum of their values, page by page.
#ifndef FOLIO_KERNELS_CPU_PLAIN_ATTENTION_H_
#define FOLIO_KERNELS_CPU_PLAIN_ATTENTION_H_

#include "absl/types/span.h"
#include "kernels/cpu/ops.h"

namespace folio::kernels::cpu::plain {

// The first `tokens` keys or values of one head of a page.
inline Matrix<const bf16> HeadRows(const bf16* half_page, const CacheGeometry& geometry,
                                   uint32_t head, uint32_t tokens) {
  const size_t dim = geometry.head_dim;
  return {half_page + size_t{head} * geometry.page_tokens * dim, tokens, dim, dim};
}

// As CpuOps::Attention. q and out [rows, heads * head_dim].
void Attention(ThreadPool& pool, Matrix<const float> q, absl::Span<const AttentionItem> runs,
               const AttentionShape& shape, const PoolView& pages, Matrix<float> out);

}  // namespace folio::kernels::cpu::plain

#endif  // FOLIO_KERNELS_CPU_PLAIN_ATTENTION_H_
