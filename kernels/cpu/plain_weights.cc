#include "kernels/cpu/plain_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/cpu/plain_loops.h"
#include "services/base/check.h"

namespace folio::kernels::cpu::plain {
namespace {

class Bf16Rows final : public PlainWeights {
 public:
  Bf16Rows(std::vector<bf16> values, uint32_t n, uint32_t k, std::optional<Activation> activation)
      : values_(std::move(values)), n_(n), k_(k), activation_(activation) {}

  uint32_t n() const override { return n_; }
  uint32_t k() const override { return k_; }
  size_t bytes() const override { return values_.size() * sizeof(bf16); }
  const std::optional<Activation>& activation() const override { return activation_; }

  void Dots(Matrix<const float> in, size_t first, size_t count, Matrix<float> out) const override {
    BestLoops().dots(in, {values_.data() + first * k_, count, k_, k_}, out);
  }
  void ReadRow(size_t row, absl::Span<float> out) const override {
    for (size_t i = 0; i < k_; ++i) out[i] = values_[row * k_ + i].ToFloat();
  }

 private:
  std::vector<bf16> values_;
  uint32_t n_;
  uint32_t k_;
  std::optional<Activation> activation_;
};

// A row of activations as QuantizedOps defines it.
struct QuantizedActivations {
  std::vector<int> codes;     // [k]
  std::vector<float> scales;  // [k / 32]

  QuantizedActivations(const float* x, size_t k) : codes(k), scales(k / kQuantizedBlock) {
    for (size_t block = 0; block < scales.size(); ++block) {
      const size_t first = block * kQuantizedBlock;
      float largest = 0;
      bool finite = true;
      for (size_t i = first; i < first + kQuantizedBlock; ++i) {
        finite = finite && std::isfinite(x[i]);
        largest = std::max(largest, std::fabs(x[i]));
      }
      if (!finite) {
        scales[block] = std::numeric_limits<float>::quiet_NaN();
        continue;
      }
      if (largest <= kLeastActivation) continue;
      scales[block] = largest / 127.0f;
      const float inverse = 127.0f / largest;
      for (size_t i = first; i < first + kQuantizedBlock; ++i) {
        codes[i] = static_cast<int>(std::nearbyint(x[i] * inverse));
      }
    }
  }
};

class QuantizedRows final : public PlainWeights {
 public:
  QuantizedRows(absl::Span<const QuantizedMatrix* const> parts,
                std::optional<Activation> activation)
      : n_(0), k_(parts[0]->k()), activation_(activation) {
    const bool gated = activation.has_value();
    for (const QuantizedMatrix* part : parts) {
      FOLIO_CHECK(part->k() == k_ && k_ % part->format().super == 0);
      if (gated && part != parts[0]) break;
      for (uint32_t row = 0; row < part->n(); ++row) {
        Add(*part, row);
        if (gated) Add(*parts[1], row);
      }
      n_ += part->n();
    }
  }

  uint32_t n() const override { return n_; }
  uint32_t k() const override { return k_; }
  size_t bytes() const override { return bytes_; }
  const std::optional<Activation>& activation() const override { return activation_; }

  void Dots(Matrix<const float> in, size_t first, size_t count, Matrix<float> out) const override {
    for (size_t r = 0; r < in.rows; ++r) {
      const QuantizedActivations x(in.row(r), k_);
      for (size_t i = 0; i < count; ++i) out.row(r)[i] = Dot(x, rows_[first + i]);
    }
  }
  void ReadRow(size_t row, absl::Span<float> out) const override {
    Dequantize(rows_[row].format, rows_[row].values, out);
  }

 private:
  struct Row {
    QuantizedFormat format;
    QuantizedRow values;
  };

  void Add(const QuantizedMatrix& matrix, uint32_t row) {
    rows_.push_back({matrix.format(), QuantizedRow(matrix.format(), k_)});
    QuantizedRow& values = rows_.back().values;
    matrix.Read(row, values);
    bytes_ += values.codes.size() + values.steps.size() + values.offsets.size() +
              sizeof(uint16_t) * (values.scales.size() + values.offset_scales.size());
  }

  float Dot(const QuantizedActivations& x, const Row& row) const {
    const QuantizedFormat& format = row.format;
    float sum = 0;
    for (size_t group = 0; group < k_ / format.group; ++group) {
      const size_t first = group * format.group;
      int products = 0;
      int codes = 0;
      for (size_t i = first; i < first + format.group; ++i) {
        products += CodeValue(format, row.values.codes[i]) * x.codes[i];
        codes += x.codes[i];
      }
      const float scale = x.scales[first / kQuantizedBlock];
      const GroupNumbers numbers = NumbersOf(format, row.values, group);
      sum = std::fma(numbers.step * scale, static_cast<float>(products), sum);
      if (format.offsets) sum = std::fma(numbers.offset, scale * static_cast<float>(-codes), sum);
    }
    return sum;
  }

  std::vector<Row> rows_;
  size_t bytes_ = 0;
  uint32_t n_;
  uint32_t k_;
  std::optional<Activation> activation_;
};

}  // namespace

std::unique_ptr<PlainWeights> PackRows(Matrix<const bf16> weight) {
  std::vector<bf16> values;
  values.reserve(weight.rows * weight.cols);
  for (size_t r = 0; r < weight.rows; ++r) {
    values.insert(values.end(), weight.row(r), weight.row(r) + weight.cols);
  }
  return std::make_unique<Bf16Rows>(std::move(values), weight.rows, weight.cols, std::nullopt);
}

std::unique_ptr<PlainWeights> PackGatedRows(Matrix<const bf16> gate, Matrix<const bf16> up,
                                            Activation activation) {
  std::vector<bf16> values;
  values.reserve(2 * gate.rows * gate.cols);
  for (size_t r = 0; r < gate.rows; ++r) {
    values.insert(values.end(), gate.row(r), gate.row(r) + gate.cols);
    values.insert(values.end(), up.row(r), up.row(r) + up.cols);
  }
  return std::make_unique<Bf16Rows>(std::move(values), gate.rows, gate.cols, activation);
}

std::unique_ptr<PlainWeights> PackQuantizedRows(absl::Span<const QuantizedMatrix* const> parts,
                                                std::optional<Activation> activation) {
  return std::make_unique<QuantizedRows>(parts, activation);
}

}  // namespace folio::kernels::cpu::plain
