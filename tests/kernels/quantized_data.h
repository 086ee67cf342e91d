// This header has random matrices of quantised values.
#ifndef FOLIO_TESTS_KERNELS_QUANTIZED_DATA_H_
#define FOLIO_TESTS_KERNELS_QUANTIZED_DATA_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/quantized.h"
#include "kernels/views.h"

namespace folio::kernels::cpu {

// Any codes; scales from 2^-8 to 2^-3 with either sign, and steps in the ranges of files.
class RandomQuantized final : public QuantizedMatrix {
 public:
  RandomQuantized(std::mt19937& random, const QuantizedFormat& format, uint32_t n, uint32_t k)
      : format_(format), k_(k) {
    const auto half = [&] {
      return static_cast<uint16_t>((random() % 2) << 15 | (7 + random() % 5) << 10 |
                                   random() % 1024);
    };
    const auto small = [&](int low, int high) {
      return static_cast<int8_t>(low + static_cast<int>(random() % (high - low + 1)));
    };
    for (uint32_t row = 0; row < n; ++row) {
      rows_.emplace_back(format, k);
      QuantizedRow& one = rows_.back();
      for (uint8_t& code : one.codes) code = static_cast<uint8_t>(random() % (1u << format.bits));
      for (auto* scales : {&one.scales, &one.offset_scales}) {
        for (uint16_t& scale : *scales) scale = half();
      }
      for (int8_t& step : one.steps) step = format.offsets ? small(0, 63) : small(-128, 127);
      for (int8_t& offset : one.offsets) offset = small(0, 63);
    }
  }

  const QuantizedFormat& format() const override { return format_; }
  uint32_t n() const override { return static_cast<uint32_t>(rows_.size()); }
  uint32_t k() const override { return k_; }
  void Read(uint32_t row, QuantizedRow& out) const override { out = rows_[row]; }

  // The values, [n, k].
  std::vector<float> Values() const {
    std::vector<float> values(rows_.size() * k_);
    for (size_t row = 0; row < rows_.size(); ++row) {
      Dequantize(format_, rows_[row], absl::MakeSpan(values).subspan(row * k_, k_));
    }
    return values;
  }
  std::vector<bf16> Rounded() const {
    std::vector<bf16> rounded;
    for (const float value : Values()) rounded.push_back(bf16::Round(value));
    return rounded;
  }

 private:
  QuantizedFormat format_;
  uint32_t k_;
  std::vector<QuantizedRow> rows_;
};

inline std::string FormatText(const QuantizedFormat& f) {
  return absl::StrCat(int{f.bits}, " bits, zero ", int{f.zero}, ", groups of ", int{f.group},
                      " in ", f.super, f.steps ? ", steps" : "", f.offsets ? ", offsets" : "",
                      f.uneven ? ", uneven" : "");
}

}  // namespace folio::kernels::cpu

#endif  // FOLIO_TESTS_KERNELS_QUANTIZED_DATA_H_
