// PanelWeights is a weight matrix of the fast family, stored as panels (kernels.h).
#ifndef FOLIO_KERNELS_CPU_FAST_PANEL_WEIGHTS_H_
#define FOLIO_KERNELS_CPU_FAST_PANEL_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "kernels/cpu/ops.h"
#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

// Hands out 64-byte-aligned pieces of large blocks that ask for huge pages, because streaming
// weights from 4 KiB pages costs a tenth of the bandwidth in address translation. A block lives as
// long as any of its pieces. Thread-safe.
class WeightArena {
 public:
  std::shared_ptr<uint32_t> Allocate(size_t words);

 private:
  std::mutex mutex_;
  std::shared_ptr<std::byte> block_;
  size_t block_bytes_ = 0;
  size_t used_ = 0;
};

class PanelWeights final : public PackedWeights {
 public:
  // A pair for GatedLinear has an `up` of the shape of `weight`, and an activation.
  static std::unique_ptr<PanelWeights> Pack(WeightArena& arena, uint32_t lanes,
                                            Matrix<const bf16> weight,
                                            const Matrix<const bf16>* up = nullptr,
                                            Activation activation = Activation::kSilu);

  uint32_t n() const override { return n_; }
  uint32_t k() const override { return k_; }
  size_t bytes() const override { return panel_words_ * num_panels_ * sizeof(uint32_t); }

  bool gated() const { return gated_; }
  Activation activation() const { return activation_; }
  uint32_t num_panels() const { return num_panels_; }
  const uint32_t* panel(uint32_t p) const { return words_.get() + panel_words_ * p; }
  size_t panel_bytes() const { return panel_words_ * sizeof(uint32_t); }
  // Outputs one panel gives.
  uint32_t panel_columns() const { return panel_columns_; }

 private:
  PanelWeights() = default;

  std::shared_ptr<uint32_t> words_;
  size_t panel_words_ = 0;
  uint32_t num_panels_ = 0;
  uint32_t panel_columns_ = 0;
  uint32_t n_ = 0;
  uint32_t k_ = 0;
  bool gated_ = false;
  Activation activation_ = Activation::kSilu;  // of a pair
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_PANEL_WEIGHTS_H_
