#include "services/model/source/padded_heads.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "kernels/quantized.h"
#include "services/base/check.h"
#include "services/runtime/logging.h"

namespace folio::model {
namespace {

bool CountsHeads(Extent extent) { return extent == Extent::kQueries || extent == Extent::kKeys; }

ModelConfig Padded(ModelConfig config, uint32_t head_dim) {
  FOLIO_CHECK(PaddedHeads::Serves(config) && head_dim > config.head_dim && head_dim % 2 == 0);
  config.rotary_dim = config.rotary();
  config.query_gain *=
      static_cast<float>(std::sqrt(static_cast<double>(head_dim) / config.head_dim));
  config.head_dim = head_dim;
  return config;
}

// Tells for each number of padded heads which of the model's it is.
class Spread {
 public:
  Spread(const ModelConfig& from, const ModelConfig& to) : from_(from.head_dim), to_(to.head_dim) {}

  uint32_t Size(uint32_t stored) const { return stored / from_ * to_; }
  // The model's index for one of the padded model, or nothing for a zero.
  std::optional<uint32_t> Stored(uint32_t index) const {
    const uint32_t head = index / to_;
    const uint32_t half = index % to_ / (to_ / 2);
    const uint32_t at = index % (to_ / 2);
    if (at >= from_ / 2) return std::nullopt;
    return head * from_ + half * (from_ / 2) + at;
  }

 private:
  uint32_t from_, to_;
};

// The elements of a tensor of the model in those of the padded one. The others are zeros.
template <typename T>
std::vector<T> Apply(const Spread& spread, const RoleInfo& info, const ModelConfig& from,
                     const std::vector<T>& stored) {
  const uint32_t rows = SizeOf(info.rows, from);
  const uint32_t cols = SizeOf(info.cols, from);
  const bool in_rows = CountsHeads(info.rows);
  const bool in_cols = CountsHeads(info.cols);
  const uint32_t all_rows = in_rows ? spread.Size(rows) : rows;
  const uint32_t all_cols = in_cols ? spread.Size(cols) : cols;
  std::vector<T> out(size_t{all_rows} * all_cols);
  for (uint32_t row = 0; row < all_rows; ++row) {
    const std::optional<uint32_t> from_row = in_rows ? spread.Stored(row) : row;
    if (!from_row.has_value()) continue;
    const T* in = &stored[size_t{*from_row} * cols];
    T* to = &out[size_t{row} * all_cols];
    for (uint32_t col = 0; col < all_cols; ++col) {
      const std::optional<uint32_t> from_col = in_cols ? spread.Stored(col) : col;
      if (from_col.has_value()) to[col] = in[*from_col];
    }
  }
  return out;
}

// A quantised matrix with rows of zeros between its own.
class PaddedRows final : public kernels::QuantizedMatrix {
 public:
  PaddedRows(std::unique_ptr<kernels::QuantizedMatrix> stored, const Spread& spread)
      : stored_(std::move(stored)), spread_(spread) {}

  const kernels::QuantizedFormat& format() const override { return stored_->format(); }
  uint32_t n() const override { return spread_.Size(stored_->n()); }
  uint32_t k() const override { return stored_->k(); }

  void Read(uint32_t row, kernels::QuantizedRow& out) const override {
    if (const auto stored = spread_.Stored(row)) return stored_->Read(*stored, out);
    // With scales of zero any codes are zeros.
    const auto clear = [](auto& numbers) { std::fill(numbers.begin(), numbers.end(), 0); };
    clear(out.codes);
    clear(out.scales);
    clear(out.offset_scales);
    clear(out.steps);
    clear(out.offsets);
  }

 private:
  const std::unique_ptr<kernels::QuantizedMatrix> stored_;
  const Spread spread_;
};

}  // namespace

bool PaddedHeads::Serves(const ModelConfig& config) {
  return !config.features.has(Feature::kHeadNorms);
}

PaddedHeads::PaddedHeads(std::unique_ptr<ModelSource> model, uint32_t head_dim)
    : model_(std::move(model)), config_(Padded(model_->config(), head_dim)) {
  log::Info("heads are padded with zeros to a size that the kernels serve, also those in pages",
            {{"head_dim", model_->config().head_dim}, {"padded_to", head_dim}});
}

absl::StatusOr<std::vector<kernels::bf16>> PaddedHeads::ReadMatrix(Role role,
                                                                   uint32_t layer) const {
  auto matrix = model_->ReadMatrix(role, layer);
  if (!matrix.ok()) return matrix;
  return Apply(Spread(model_->config(), config_), InfoOf(role), model_->config(), *matrix);
}

absl::StatusOr<std::vector<float>> PaddedHeads::ReadVector(Role role, uint32_t layer) const {
  auto vector = model_->ReadVector(role, layer);
  if (!vector.ok()) return vector;
  return Apply(Spread(model_->config(), config_), InfoOf(role), model_->config(), *vector);
}

absl::StatusOr<ScaledMatrix> PaddedHeads::ReadScaled(Role role, uint32_t layer) const {
  auto stored = model_->ReadScaled(role, layer);
  if (!stored.ok()) return stored;
  const RoleInfo& info = InfoOf(role);
  const Spread spread(model_->config(), config_);
  ScaledMatrix matrix;
  matrix.codes = Apply(spread, info, model_->config(), stored->codes);
  matrix.scales.resize(SizeOf(info.rows, config_), 1.0f);
  for (uint32_t row = 0; row < matrix.scales.size(); ++row) {
    const std::optional<uint32_t> from = CountsHeads(info.rows) ? spread.Stored(row) : row;
    if (from.has_value()) matrix.scales[row] = stored->scales[*from];
  }
  return matrix;
}

absl::StatusOr<std::unique_ptr<kernels::QuantizedMatrix>> PaddedHeads::ReadQuantized(
    Role role, uint32_t layer) const {
  auto matrix = model_->ReadQuantized(role, layer);
  if (!matrix.ok() || *matrix == nullptr) return matrix;
  const RoleInfo& info = InfoOf(role);
  if (CountsHeads(info.cols)) {
    return absl::UnimplementedError("the heads of the model are padded");
  }
  if (!CountsHeads(info.rows)) return matrix;
  return std::make_unique<PaddedRows>(*std::move(matrix), Spread(model_->config(), config_));
}

}  // namespace folio::model
