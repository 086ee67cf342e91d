#include "services/model/cpu/transformer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "services/base/check.h"
#include "services/model/cpu/row_passes.h"
#include "services/model/executor/scoped_timer.h"

namespace folio::model {
namespace {

using kernels::Matrix;
using kernels::RowSplit;

Matrix<const float> Const(const Matrix<float>& m) { return {m.data, m.rows, m.cols, m.stride}; }

}  // namespace

Transformer::Transformer(std::shared_ptr<const ModelWeights> weights,
                         const kernels::cpu::CpuOps& ops, kernels::ThreadPool& threads,
                         const kernels::PoolView& pages, uint32_t max_rows, CpuGroup group)
    : weights_(std::move(weights)),
      ops_(ops),
      threads_(threads),
      pages_(pages),
      shape_{config().heads, config().kv_heads, config().head_dim},
      max_rows_(max_rows),
      rope_(config()),
      hidden_(sizeof(float), max_rows, config().hidden),
      normed_(ops.activation_bytes(), std::max(max_rows, kMaxLogitRows), config().hidden),
      qkv_(sizeof(float), max_rows, (shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim),
      q_(ops.activation_bytes(), max_rows, shape_.heads * shape_.head_dim),
      attended_(ops.activation_bytes(), max_rows, shape_.heads * shape_.head_dim),
      ffn_(ops.activation_bytes(), max_rows, config().ffn),
      loss_(sizeof(kernels::bf16), rounds() ? max_rows : 0, config().hidden),
      gathered_(sizeof(float), kMaxLogitRows, config().hidden),
      logits_(sizeof(float), kMaxLogitRows, config().outputs()) {
  if (config().others.has_value()) other_rope_.emplace(config(), /*others=*/true);
  if (group.collective != nullptr && group.collective->size() > 1) {
    communicator_ =
        std::make_unique<CpuCommunicator>(std::move(group), config(), ops.activation_bytes());
  }
  if (communicator_ != nullptr || config().features.has(Feature::kPostNorms)) {
    partial_ = ActivationBuffer(sizeof(float), max_rows, config().hidden);
  }
}

absl::Status Transformer::Forward(const ForwardRows& rows, PlaceLayer place) {
  const uint32_t count = rows.split.total();
  FOLIO_CHECK(count > 0 && count <= max_rows_ && rows.ids.size() == count);
  kernels::RopeTable rope, other_rope;
  {
    ScopedTimer timer(times_.other);
    rope = rope_.Table(rows.positions);
    if (other_rope_.has_value()) other_rope = other_rope_->Table(rows.positions);
    if (weights_->stored_embedding != nullptr) {
      ops_.Lookup(threads_, *weights_->stored_embedding, rows.ids, hidden_.Floats(count));
    } else {
      ops_.Embed(threads_, weights_->embedding_matrix(), rows.ids, hidden_.Floats(count));
    }
    if (const float scale = config().embedding_scale; scale != 1) {
      ScaleRows(threads_, scale, hidden_.Floats(count));
    }
    slots_.resize(count);
    runs_.resize(rows.runs);
  }
  for (uint32_t layer = 0; layer < config().num_layers; ++layer) {
    {
      ScopedTimer timer(times_.other);
      place(layer, absl::MakeSpan(slots_), absl::MakeSpan(runs_));
    }
    const bool other = config().is_other(layer);
    absl::Status status = RunLayer(layer, rows, other ? other_rope : rope);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Transformer::RunLayer(uint32_t layer, const ForwardRows& forward,
                                   const kernels::RopeTable& rope) {
  const LayerWeights& w = weights_->layers[layer];
  const RowSplit& split = forward.split;
  const uint32_t rows = split.total();
  const float eps = config().norm_eps;
  const Matrix<float> hidden = hidden_.Floats(rows);
  {
    ScopedTimer timer(times_.other);
    ops_.RmsNorm(threads_, Const(hidden), w.attention_norm, eps, normed_.View(rows));
  }
  {
    ScopedTimer timer(times_.linear);
    ops_.Linear(threads_, split, normed_.View(rows), *w.qkv, qkv_.Floats(rows), false);
    if (layer == 0 && rounds()) AddRoundingLoss(split);
    AddBias(threads_, w.qkv_bias, qkv_.Floats(rows));
    NormHeads(threads_, {w.query_norm, w.key_norm, eps}, shape_, qkv_.Floats(rows));
    if (const auto& scale = config().query_scale; scale.has_value()) {
      ScaleQueries(threads_, *scale, shape_, slots_, qkv_.Floats(rows));
    }
  }
  {
    ScopedTimer timer(times_.append_score);
    ops_.RopeAppendScore(threads_, Const(qkv_.Floats(rows)), shape_, rope, slots_, pages_,
                         q_.View(rows));
  }
  {
    ScopedTimer timer(times_.attention);
    ops_.Attention(threads_, split, q_.View(rows), runs_, shape_, pages_, attended_.View(rows));
  }
  if (!pages_.geometry.windows.contains(layer)) {
    if (absl::Status status = ScoreWindows(forward, layer); !status.ok()) return status;
  }
  absl::Status status = AddProduct(split, attended_.View(rows), *w.out, w.post_attention_norm);
  if (!status.ok()) return status;
  {
    ScopedTimer timer(times_.other);
    ops_.RmsNorm(threads_, Const(hidden), w.ffn_norm, eps, normed_.View(rows));
  }
  {
    ScopedTimer timer(times_.linear);
    ops_.GatedLinear(threads_, split, normed_.View(rows), *w.gate_up, ffn_.View(rows));
  }
  return AddProduct(split, ffn_.View(rows), *w.down, w.post_ffn_norm);
}

absl::Status Transformer::AddProduct(const RowSplit& split, const kernels::cpu::Activations& in,
                                     const kernels::cpu::PackedWeights& weight,
                                     absl::Span<const float> norm) {
  const Matrix<float> hidden = hidden_.Floats(split.total());
  const bool adds = communicator_ == nullptr && norm.empty();
  const Matrix<float> out = adds ? hidden : partial_.Floats(split.total());
  {
    ScopedTimer timer(times_.linear);
    ops_.Linear(threads_, split, in, weight, out, adds);
  }
  if (adds) return absl::OkStatus();
  if (communicator_ != nullptr) {
    ScopedTimer timer(times_.exchange);
    absl::Status status =
        norm.empty() ? communicator_->AllReduce(out, hidden) : communicator_->Sum(out);
    if (norm.empty() || !status.ok()) return status;
  }
  ScopedTimer timer(times_.other);
  AddNormed(threads_, out, norm, config().norm_eps, hidden);
  return absl::OkStatus();
}

// The layer's queries, keys and runs are there now.
absl::Status Transformer::ScoreWindows(const ForwardRows& rows, uint32_t layer) {
  windows_.clear();
  for (const auto& [index, window, layers] : rows.windows) {
    if (!layers.contains(layer)) continue;
    kernels::AttentionItem run = runs_[index];
    FOLIO_CHECK(window.queries <= run.rows);
    const uint32_t before = run.rows - window.queries;
    run.first_row += before;
    run.rows = window.queries;
    windows_.push_back({run, window.neighbours, window.channel});
  }
  if (windows_.empty()) return absl::OkStatus();
  ScopedTimer timer(times_.score);
  const kernels::cpu::Activations q = q_.View(rows.split.total());
  if (communicator_ == nullptr || !communicator_->splits_groups()) {
    ops_.ScoreWindow(threads_, q, windows_, shape_, pages_);
    return absl::OkStatus();
  }
  auto whole = communicator_->GatherQueries(q, windows_);
  if (!whole.ok()) return whole.status();
  ops_.ScoreWindow(threads_, whole->q, whole->windows, whole->shape, pages_);
  return absl::OkStatus();
}

void Transformer::AddRoundingLoss(const RowSplit& split) {
  const LayerWeights& w = weights_->layers[0];
  const uint32_t rows = split.total();
  const uint32_t size = config().hidden;
  const Matrix<float> hidden = hidden_.Floats(rows);
  const auto* rounded = static_cast<const kernels::bf16*>(normed_.View(rows).data);
  auto* loss = static_cast<kernels::bf16*>(loss_.View(rows).data);
  ForEachRow(threads_, rows, [&](size_t r) {
    const float* x = hidden.row(r);
    double squares = 0;
    for (uint32_t i = 0; i < size; ++i) squares += double{x[i]} * x[i];
    const auto scale = static_cast<float>(1 / std::sqrt(squares / size + config().norm_eps));
    for (uint32_t i = 0; i < size; ++i) {
      const size_t at = r * size + i;
      const float exact = x[i] * scale * w.attention_norm[i];
      loss[at] = kernels::bf16::Round(exact - rounded[at].ToFloat());
    }
  });
  ops_.Linear(threads_, split, loss_.View(rows), *w.qkv, qkv_.Floats(rows), true);
}

absl::StatusOr<Matrix<const float>> Transformer::Logits(absl::Span<const uint32_t> rows) {
  FOLIO_CHECK(rows.size() <= kMaxLogitRows);
  const uint32_t count = rows.size();
  const Matrix<float> gathered = gathered_.Floats(count);
  const Matrix<float> hidden = hidden_.Floats(max_rows_);
  {
    ScopedTimer timer(times_.other);
    for (uint32_t i = 0; i < count; ++i) {
      FOLIO_CHECK(rows[i] < max_rows_);
      std::copy_n(hidden.row(rows[i]), hidden.cols, gathered.row(i));
    }
    ops_.RmsNorm(threads_, Const(gathered), weights_->final_norm, config().norm_eps,
                 normed_.View(count));
  }
  {
    ScopedTimer timer(times_.linear);
    // All are decode rows here, so that a prompt's last row is computed alike in any batch.
    ops_.Linear(threads_, RowSplit{count, 0}, normed_.View(count), *weights_->output,
                logits_.Floats(count), false);
  }
  if (communicator_ == nullptr) return Const(logits_.Floats(count));
  ScopedTimer timer(times_.exchange);
  return communicator_->GatherLogits(Const(logits_.Floats(count)));
}

}  // namespace folio::model
