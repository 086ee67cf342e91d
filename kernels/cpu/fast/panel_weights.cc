#include "kernels/cpu/fast/panel_weights.h"

#include <sys/mman.h>

#include <algorithm>

#include "kernels/cpu/fast/kernels.h"
#include "services/base/check.h"

namespace folio::kernels::cpu::fast {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kBlock = size_t{32} << 20;

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

std::shared_ptr<std::byte> MapBlock(size_t bytes) {
  const size_t mapped = bytes + kHugePage;  // room to align
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  FOLIO_CHECK(base != MAP_FAILED);
  const size_t shift =
      RoundUp(reinterpret_cast<uintptr_t>(base), kHugePage) - reinterpret_cast<uintptr_t>(base);
  std::byte* start = static_cast<std::byte*>(base) + shift;
  madvise(start, bytes, MADV_HUGEPAGE);  // only a hint: huge pages may be switched off
  return {start, [base, mapped](std::byte*) { munmap(base, mapped); }};
}

uint32_t PairAt(const Matrix<const bf16>& m, size_t row, size_t k) {
  if (row >= m.rows) return 0;
  const uint32_t high = k + 1 < m.cols ? m.row(row)[k + 1].bits : 0;
  return m.row(row)[k].bits | high << 16;
}

}  // namespace

std::shared_ptr<uint32_t> WeightArena::Allocate(size_t words) {
  const size_t bytes = RoundUp(words * sizeof(uint32_t), kAlign);
  std::lock_guard lock(mutex_);
  if (used_ + bytes > block_bytes_) {
    block_bytes_ = std::max(kBlock, RoundUp(bytes, kHugePage));
    block_ = MapBlock(block_bytes_);
    used_ = 0;
  }
  std::byte* piece = block_.get() + used_;
  used_ += bytes;
  return {block_, reinterpret_cast<uint32_t*>(piece)};
}

std::unique_ptr<PanelWeights> PanelWeights::Pack(WeightArena& arena, uint32_t lanes,
                                                 Matrix<const bf16> weight,
                                                 const Matrix<const bf16>* up,
                                                 Activation activation) {
  auto packed = std::unique_ptr<PanelWeights>(new PanelWeights());
  packed->n_ = static_cast<uint32_t>(weight.rows);
  packed->k_ = static_cast<uint32_t>(weight.cols);
  packed->gated_ = up != nullptr;
  packed->activation_ = activation;
  packed->panel_columns_ = packed->gated_ ? lanes : 2 * lanes;
  packed->num_panels_ = (packed->n_ + packed->panel_columns_ - 1) / packed->panel_columns_;
  packed->panel_words_ = (weight.cols + 1) / 2 * 2 * lanes;
  packed->words_ = arena.Allocate(packed->panel_words_ * packed->num_panels_);
  uint32_t* to = packed->words_.get();
  for (uint32_t p = 0; p < packed->num_panels_; ++p) {
    const size_t first = size_t{p} * packed->panel_columns_;
    for (size_t k = 0; k < weight.cols; k += 2) {
      for (uint32_t c = 0; c < lanes; ++c) to[c] = PairAt(weight, first + c, k);
      for (uint32_t c = 0; c < lanes; ++c) {
        to[lanes + c] = up ? PairAt(*up, first + c, k) : PairAt(weight, first + lanes + c, k);
      }
      to += size_t{2} * lanes;
    }
  }
  return packed;
}

}  // namespace folio::kernels::cpu::fast
