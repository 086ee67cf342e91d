// The plain family has float32 activations and uses the loops of plain_loops.h. It is the
// specification that the fast families are compared with, so it stays simple. Rows are grouped only
// inside those loops.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/plain_attention.h"
#include "kernels/cpu/plain_loops.h"
#include "kernels/cpu/plain_scores.h"
#include "kernels/cpu/plain_weights.h"
#include "services/base/check.h"

namespace folio::kernels::cpu {
namespace {

using plain::PlainWeights;

// Weight rows of one task: small enough to stay in a core's cache while all batch rows pass.
constexpr uint32_t kWeightBlock = 64;
constexpr uint32_t kRowBlock = 8;

int Blocks(size_t count, size_t block) { return static_cast<int>((count + block - 1) / block); }

Matrix<float> Floats(const Activations& a) {
  return {static_cast<float*>(a.data), a.rows, a.cols, a.cols};
}

Matrix<const float> ConstFloats(const Activations& a) {
  return {static_cast<const float*>(a.data), a.rows, a.cols, a.cols};
}

const PlainWeights& Unpack(const PackedWeights& weight, bool gated) {
  const auto* rows = dynamic_cast<const PlainWeights*>(&weight);
  FOLIO_CHECK(rows != nullptr && rows->activation().has_value() == gated);
  return *rows;
}

// Rotates one head's vector by its position, in pairs (i, i + dim / 2).
void Rotate(const float* in, const float* cos, const float* sin, uint32_t dim, float* out) {
  const uint32_t half = dim / 2;
  for (uint32_t i = 0; i < half; ++i) {
    out[i] = in[i] * cos[i] - in[i + half] * sin[i];
    out[i + half] = in[i + half] * cos[i] + in[i] * sin[i];
  }
}

// Writes `in` to the page as bf16 and leaves the rounded values in `in`.
void Store(std::vector<float>& in, bf16* out) {
  for (size_t i = 0; i < in.size(); ++i) {
    out[i] = bf16::Round(in[i]);
    in[i] = out[i].ToFloat();
  }
}

float Activate(Activation activation, float x) {
  if (activation == Activation::kSilu) return x / (1.0f + std::exp(-x));
  const float u = 0.7978845608f * (x + 0.044715f * x * x * x);
  return x / (1.0f + std::exp(-2.0f * u));
}

float Norm(const std::vector<float>& x) {
  return std::sqrt(plain::BestLoops().sum_of_squares(x.data(), x.size()));
}

float AppendScore(ScoreKind kind, const std::vector<float>& key, const std::vector<float>& value) {
  if (kind == ScoreKind::kValueNorm) return Norm(value);
  const float k = Norm(key);
  const float of = kind == ScoreKind::kNormRatio ? Norm(value) : 1.0f;
  if (k == 0) return of == 0 ? 0 : std::numeric_limits<float>::max();
  return of / k;
}

class PlainOps final : public CpuOps {
 public:
  absl::string_view name() const override { return "plain"; }
  size_t activation_bytes() const override { return sizeof(float); }

  std::unique_ptr<PackedWeights> Pack(Matrix<const bf16> weight) const override {
    return plain::PackRows(weight);
  }

  std::unique_ptr<PackedWeights> PackGated(Matrix<const bf16> gate, Matrix<const bf16> up,
                                           Activation activation) const override {
    FOLIO_CHECK(gate.rows == up.rows && gate.cols == up.cols);
    return plain::PackGatedRows(gate, up, activation);
  }

  std::unique_ptr<PackedWeights> PackQuantized(
      absl::Span<const QuantizedMatrix* const> parts) const override {
    return plain::PackQuantizedRows(parts, std::nullopt);
  }

  std::unique_ptr<PackedWeights> PackGatedQuantized(const QuantizedMatrix& gate,
                                                    const QuantizedMatrix& up,
                                                    Activation activation) const override {
    FOLIO_CHECK(gate.n() == up.n() && gate.k() == up.k());
    return plain::PackQuantizedRows({&gate, &up}, activation);
  }

  void Lookup(ThreadPool& pool, const PackedWeights& weight, absl::Span<const uint32_t> ids,
              Matrix<float> out) const override {
    const PlainWeights& rows = Unpack(weight, false);
    FOLIO_CHECK(out.rows >= ids.size() && out.cols == rows.k());
    pool.ParallelFor(static_cast<int>(ids.size()), [&](int task, int) {
      FOLIO_CHECK(ids[task] < rows.n());
      rows.ReadRow(ids[task], {out.row(task), out.cols});
    });
  }

  void Embed(ThreadPool& pool, Matrix<const bf16> embedding, absl::Span<const uint32_t> ids,
             Matrix<float> out) const override {
    FOLIO_CHECK(out.rows >= ids.size() && out.cols == embedding.cols);
    pool.ParallelFor(Blocks(ids.size(), kRowBlock), [&](int task, int) {
      const size_t end = std::min(ids.size(), (task + size_t{1}) * kRowBlock);
      for (size_t r = size_t(task) * kRowBlock; r < end; ++r) {
        FOLIO_CHECK(ids[r] < embedding.rows);
        const bf16* from = embedding.row(ids[r]);
        for (size_t i = 0; i < embedding.cols; ++i) out.row(r)[i] = from[i].ToFloat();
      }
    });
  }

  void RmsNorm(ThreadPool& pool, Matrix<const float> x, absl::Span<const float> weight, float eps,
               Activations out) const override {
    FOLIO_CHECK(weight.size() == x.cols && out.cols == x.cols && out.rows >= x.rows);
    const Matrix<float> to = Floats(out);
    pool.ParallelFor(Blocks(x.rows, kRowBlock), [&](int task, int) {
      const size_t end = std::min(x.rows, (task + size_t{1}) * kRowBlock);
      for (size_t r = size_t(task) * kRowBlock; r < end; ++r) {
        const float mean = plain::BestLoops().sum_of_squares(x.row(r), x.cols) / float(x.cols);
        const float scale = 1.0f / std::sqrt(mean + eps);
        for (size_t i = 0; i < x.cols; ++i) to.row(r)[i] = x.row(r)[i] * scale * weight[i];
      }
    });
  }

  void Linear(ThreadPool& pool, RowSplit rows, Activations in, const PackedWeights& weight,
              Matrix<float> out, bool accumulate) const override {
    const PlainWeights& w = Unpack(weight, false);
    FOLIO_CHECK(in.cols == w.k() && out.cols == w.n());
    FOLIO_CHECK(in.rows >= rows.total() && out.rows >= rows.total());
    Matrix<const float> from = ConstFloats(in);
    from.rows = rows.total();
    pool.ParallelFor(Blocks(w.n(), kWeightBlock), [&](int task, int) {
      const size_t first = size_t(task) * kWeightBlock;
      const size_t count = std::min<size_t>(kWeightBlock, w.n() - first);
      if (!accumulate) {
        const Matrix<float> to = {out.data + first, from.rows, count, out.stride};
        w.Dots(from, first, count, to);
        return;
      }
      std::vector<float> product(from.rows * count);
      w.Dots(from, first, count, {product.data(), from.rows, count, count});
      for (size_t r = 0; r < from.rows; ++r) {
        for (size_t i = 0; i < count; ++i) out.row(r)[first + i] += product[r * count + i];
      }
    });
  }

  void GatedLinear(ThreadPool& pool, RowSplit rows, Activations in, const PackedWeights& gate_up,
                   Activations out) const override {
    const PlainWeights& w = Unpack(gate_up, true);
    FOLIO_CHECK(in.cols == w.k() && out.cols == w.n());
    FOLIO_CHECK(in.rows >= rows.total() && out.rows >= rows.total());
    Matrix<const float> from = ConstFloats(in);
    from.rows = rows.total();
    const Matrix<float> to = Floats(out);
    pool.ParallelFor(Blocks(w.n(), kWeightBlock), [&](int task, int) {
      const size_t first = size_t(task) * kWeightBlock;
      const size_t count = std::min<size_t>(kWeightBlock, w.n() - first);
      std::vector<float> pairs(from.rows * 2 * count);
      w.Dots(from, 2 * first, 2 * count, {pairs.data(), from.rows, 2 * count, 2 * count});
      for (size_t r = 0; r < from.rows; ++r) {
        for (size_t i = 0; i < count; ++i) {
          const float gate = pairs[(r * count + i) * 2];
          const float up = pairs[(r * count + i) * 2 + 1];
          to.row(r)[first + i] = Activate(*w.activation(), gate) * up;
        }
      }
    });
  }

  void RopeAppendScore(ThreadPool& pool, Matrix<const float> qkv, const AttentionShape& shape,
                       const RopeTable& rope, absl::Span<const AppendSlot> slots,
                       const PoolView& pages, Activations q) const override {
    const uint32_t dim = shape.head_dim;
    FOLIO_CHECK(qkv.cols == size_t{shape.heads + 2 * shape.kv_heads} * dim);
    FOLIO_CHECK(qkv.rows >= slots.size() && q.rows >= slots.size());
    FOLIO_CHECK(q.cols == shape.heads * dim && pages.geometry.head_dim == dim &&
                pages.geometry.num_kv_heads == shape.kv_heads);
    pool.ParallelFor(Blocks(slots.size(), kRowBlock), [&](int task, int) {
      const size_t end = std::min(slots.size(), (task + size_t{1}) * kRowBlock);
      for (size_t r = size_t(task) * kRowBlock; r < end; ++r) {
        AppendRow(qkv.row(r), shape, rope, slots[r], pages, Floats(q).row(r));
      }
    });
  }

  void Attention(ThreadPool& pool, RowSplit split, Activations q,
                 absl::Span<const AttentionItem> runs, const AttentionShape& shape,
                 const PoolView& pages, Activations out) const override {
    FOLIO_CHECK(q.rows >= split.total() && out.rows >= split.total());
    plain::Attention(pool, ConstFloats(q), runs, shape, pages, Floats(out));
  }

  void ScoreResident(ThreadPool& pool, absl::Span<const ResidentItem> runs,
                     const PoolView& pages) const override {
    plain::ScoreResident(pool, runs, pages);
  }

  void ScoreUnrotated(ThreadPool& pool, absl::Span<const UnrotatedItem> runs, const RopeTable& rope,
                      const PoolView& pages) const override {
    plain::ScoreUnrotated(pool, runs, rope, pages);
  }

  void ScoreWindow(ThreadPool& pool, Activations q, absl::Span<const WindowItem> runs,
                   const AttentionShape& shape, const PoolView& pages) const override {
    plain::ScoreWindow(pool, ConstFloats(q), runs, shape, pages);
  }

 private:
  static void AppendRow(const float* qkv, const AttentionShape& shape, const RopeTable& rope,
                        const AppendSlot& slot, const PoolView& pages, float* q) {
    const uint32_t dim = shape.head_dim;
    FOLIO_CHECK(slot.position < rope.positions && slot.page < pages.num_pages &&
                slot.offset < pages.geometry.page_tokens);
    const float* cos = rope.cos + size_t{slot.position} * (dim / 2);
    const float* sin = rope.sin + size_t{slot.position} * (dim / 2);
    for (uint32_t h = 0; h < shape.heads; ++h) {
      Rotate(qkv + size_t{h} * dim, cos, sin, dim, q + size_t{h} * dim);
    }
    const float* keys = qkv + size_t{shape.heads} * dim;
    const float* values = keys + size_t{shape.kv_heads} * dim;
    std::vector<float> key(dim);
    std::vector<float> value(dim);
    for (uint32_t h = 0; h < shape.kv_heads; ++h) {
      const size_t place = (size_t{h} * pages.geometry.page_tokens + slot.offset) * dim;
      Rotate(keys + size_t{h} * dim, cos, sin, dim, key.data());
      value.assign(values + size_t{h} * dim, values + size_t{h + 1} * dim);
      Store(key, pages.keys(slot.page) + place);
      Store(value, pages.values(slot.page) + place);
      if (WrittenAtAppend(slot.score) && pages.scores != nullptr) {
        pages.page_scores(slot.page)[size_t{slot.offset} * pages.score_stride() + h] =
            AppendScore(slot.score, key, value);
      }
    }
  }
};

}  // namespace

std::unique_ptr<CpuOps> MakePlainOps() { return std::make_unique<PlainOps>(); }

}  // namespace folio::kernels::cpu
