// StripWeights is a matrix of quantised values of the fast family. It is stored as strips
// (quantized_kernels.h), in the order in which a product reads them.
#ifndef FOLIO_KERNELS_CPU_FAST_STRIP_WEIGHTS_H_
#define FOLIO_KERNELS_CPU_FAST_STRIP_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "kernels/activation.h"
#include "kernels/cpu/fast/panel_weights.h"
#include "kernels/cpu/fast/quantized_kernels.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/quantized_ops.h"

namespace folio::kernels::cpu::fast {

// The place of a strip, and the outputs that it gives.
struct Strip {
  const std::byte* bytes = nullptr;
  uint32_t format = 0;   // the place in kQuantizedFormats
  uint32_t column = 0;   // the first output
  uint32_t columns = 0;  // at most as many as lanes
};

class StripWeights final : public PackedWeights {
 public:
  // `parts` are below one another. A gated pair is two parts of equal shape, whose strips take
  // turns: one of the gate, one of the same outputs of the up matrix.
  static std::unique_ptr<StripWeights> Pack(WeightArena& arena, uint32_t lanes,
                                            absl::Span<const QuantizedMatrix* const> parts,
                                            std::optional<Activation> activation = std::nullopt);

  uint32_t n() const override { return n_; }
  uint32_t k() const override { return k_; }
  size_t bytes() const override { return bytes_; }

  // Only a gated pair has one.
  const std::optional<Activation>& activation() const { return activation_; }
  absl::Span<const Strip> strips() const { return strips_; }
  const StripLayout& layout(uint32_t format) const { return layouts_[format]; }

  // Row `row` of the matrix, [k]. Not for a gated pair.
  void ReadRow(uint32_t row, absl::Span<float> out) const;

 private:
  StripWeights() = default;

  std::shared_ptr<uint32_t> memory_;
  std::vector<Strip> strips_;
  std::vector<StripLayout> layouts_;  // of all formats
  size_t bytes_ = 0;
  uint32_t lanes_ = 0;
  uint32_t n_ = 0;
  uint32_t k_ = 0;
  std::optional<Activation> activation_;
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_STRIP_WEIGHTS_H_
