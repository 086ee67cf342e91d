// StoredModel is a model whose layers are quantised in the formats that a test wants, with the
// numbers that another model's have once they are quantised. ReadMatrix gives these numbers too, so
// that how they are computed with is what a comparison shows.
#ifndef FOLIO_TESTS_GPU_STORED_MODEL_H_
#define FOLIO_TESTS_GPU_STORED_MODEL_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/quantized.h"
#include "services/model/source/model_source.h"

namespace folio::model::testing {

// Rows that are quantised when they are read, without care for the smallest error.
class QuantizedRows final : public kernels::QuantizedMatrix {
 public:
  QuantizedRows(const kernels::QuantizedFormat& format, std::vector<kernels::bf16> values,
                uint32_t k)
      : format_(format), k_(k), values_(std::move(values)) {}

  const kernels::QuantizedFormat& format() const override { return format_; }
  uint32_t n() const override { return static_cast<uint32_t>(values_.size() / k_); }
  uint32_t k() const override { return k_; }

  void Read(uint32_t row, kernels::QuantizedRow& out) const override {
    for (uint32_t first = 0; first < k_; first += format_.super) PutSuper(row, first, out);
    for (uint32_t i = 0; i < k_; ++i) out.codes[i] = Nearest(out, i, At(row, i));
  }

 private:
  float At(uint32_t row, uint32_t i) const { return values_[size_t{row} * k_ + i].ToFloat(); }
  int Most() const { return format_.uneven ? 113 : (1 << format_.bits) - 1 - format_.zero; }
  static uint16_t Half(float x) { return std::bit_cast<uint16_t>(static_cast<_Float16>(x)); }

  // The step and the offset that hold a group's numbers.
  kernels::GroupNumbers Wanted(uint32_t row, uint32_t first) const {
    float low = 0, high = 0;
    for (uint32_t i = first; i < first + format_.group; ++i) {
      low = std::min(low, At(row, i));
      high = std::max(high, At(row, i));
    }
    const auto most = static_cast<float>(Most());
    if (format_.offsets) return {(high - low) / most, -low};
    return {std::max(high, -low) / most, 0};
  }

  void PutSuper(uint32_t row, uint32_t first, kernels::QuantizedRow& out) const {
    const uint32_t groups = format_.super / format_.group;
    kernels::GroupNumbers largest;
    for (uint32_t i = 0; i < groups; ++i) {
      const auto wanted = Wanted(row, first + i * format_.group);
      largest.step = std::max(largest.step, wanted.step);
      largest.offset = std::max(largest.offset, wanted.offset);
    }
    const float steps = format_.steps ? 63 : 1;
    const uint32_t super = first / format_.super;
    out.scales[super] = Half(largest.step / steps);
    if (format_.offsets) out.offset_scales[super] = Half(largest.offset / steps);
    for (uint32_t i = 0; format_.steps && i < groups; ++i) {
      const auto wanted = Wanted(row, first + i * format_.group);
      const uint32_t group = first / format_.group + i;
      out.steps[group] = static_cast<int8_t>(std::ceil(wanted.step / largest.step * steps));
      if (!format_.offsets) continue;
      out.offsets[group] = static_cast<int8_t>(std::lround(wanted.offset / largest.offset * steps));
    }
  }

  uint8_t Nearest(const kernels::QuantizedRow& row, uint32_t i, float value) const {
    const auto numbers = kernels::NumbersOf(format_, row, i / format_.group);
    uint8_t best = 0;
    float least = std::numeric_limits<float>::infinity();
    for (int code = 0; code < 1 << format_.bits; ++code) {
      const int of = kernels::CodeValue(format_, static_cast<uint8_t>(code));
      const float apart = std::fabs(numbers.step * static_cast<float>(of) - numbers.offset - value);
      if (apart < least) best = static_cast<uint8_t>(code);
      least = std::min(least, apart);
    }
    return best;
  }

  const kernels::QuantizedFormat format_;
  const uint32_t k_;
  const std::vector<kernels::bf16> values_;
};

class StoredModel final : public ModelSource {
 public:
  // The format of a layer's matrix, or none if it is bf16.
  using Formats = std::function<std::optional<kernels::QuantizedFormat>(Role, uint32_t layer)>;

  StoredModel(const ModelSource& of, Formats formats) : of_(of), formats_(std::move(formats)) {}
  const ModelConfig& config() const override { return of_.config(); }
  const TokenizerSpec& tokenizer() const override { return of_.tokenizer(); }
  absl::StatusOr<std::vector<kernels::bf16>> ReadMatrix(Role role, uint32_t layer) const override {
    const auto matrix = ReadQuantized(role, layer);
    if (!matrix.ok()) return matrix.status();
    if (*matrix == nullptr) return of_.ReadMatrix(role, layer);
    kernels::QuantizedRow row((*matrix)->format(), (*matrix)->k());
    std::vector<float> numbers((*matrix)->k());
    std::vector<kernels::bf16> values;
    for (uint32_t i = 0; i < (*matrix)->n(); ++i) {
      (*matrix)->Read(i, row);
      kernels::Dequantize((*matrix)->format(), row, absl::MakeSpan(numbers));
      for (const float x : numbers) values.push_back(kernels::bf16::Round(x));
    }
    return values;
  }
  absl::StatusOr<std::vector<float>> ReadVector(Role role, uint32_t layer) const override {
    return of_.ReadVector(role, layer);
  }
  absl::StatusOr<std::unique_ptr<kernels::QuantizedMatrix>> ReadQuantized(
      Role role, uint32_t layer) const override {
    const auto format = InfoOf(role).in_layer ? formats_(role, layer) : std::nullopt;
    if (!format.has_value()) return nullptr;
    auto values = of_.ReadMatrix(role, layer);
    if (!values.ok()) return values.status();
    return std::make_unique<QuantizedRows>(*format, *std::move(values),
                                           SizeOf(InfoOf(role).cols, config()));
  }
  std::string fingerprint() const override { return of_.fingerprint(); }

 private:
  const ModelSource& of_;
  const Formats formats_;
};

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_GPU_STORED_MODEL_H_
