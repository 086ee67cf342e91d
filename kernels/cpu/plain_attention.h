// This header has attention of the plain family. For each row it computes the softmax over the
// visible slots and the weighted sum of their values, page by page.
#ifndef FOLIO_KERNELS_CPU_PLAIN_ATTENTION_H_
#define FOLIO_KERNELS_CPU_PLAIN_ATTENTION_H_

#include <algorithm>

#include "absl/types/span.h"
#include "kernels/cpu/ops.h"

namespace folio::kernels::cpu::plain {

// Keys or values [first, first + tokens) of one head of a page.
inline Matrix<const bf16> HeadRows(const bf16* half_page, const CacheGeometry& geometry,
                                   uint32_t head, uint32_t first, uint32_t tokens) {
  const size_t dim = geometry.head_dim;
  const size_t row = size_t{head} * geometry.page_tokens + first;
  return {half_page + row * dim, tokens, dim, dim};
}

// Slots [first, end) of a sequence.
struct SlotRange {
  uint32_t first = 0;
  uint32_t end = 0;
  uint32_t count() const { return end - first; }
};

// Those that a row of the run attends to.
inline SlotRange SlotsOf(const AttentionItem& run, uint32_t row) {
  return {run.first_slot(row), run.end_slot(row)};
}

// Calls body(page, first token, tokens, slots of the range before) for each page with slots of it.
template <typename Body>
void ForPages(const AttentionItem& run, SlotRange slots, uint32_t page_tokens, Body body) {
  for (uint32_t slot = slots.first; slot < slots.end;) {
    const uint32_t offset = slot % page_tokens;
    const uint32_t tokens = std::min(page_tokens - offset, slots.end - slot);
    body(run.pages[slot / page_tokens], offset, tokens, slot - slots.first);
    slot += tokens;
  }
}

// As CpuOps::Attention. q and out [rows, heads * head_dim].
void Attention(ThreadPool& pool, Matrix<const float> q, absl::Span<const AttentionItem> runs,
               const AttentionShape& shape, const PoolView& pages, Matrix<float> out);

}  // namespace folio::kernels::cpu::plain

#endif  // FOLIO_KERNELS_CPU_PLAIN_ATTENTION_H_
