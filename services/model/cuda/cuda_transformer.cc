#include "services/model/cuda/cuda_transformer.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/scores/scores.h"
#include "services/base/check.h"
#include "services/model/cuda/decode_shapes.h"

namespace folio::model {
namespace {

namespace cuda = kernels::cuda;
using cuda::ConstTensor;
using cuda::DataType;
using cuda::Tensor;

// Rows begin at multiples of 16 bytes.
size_t Stride(DataType type, uint32_t cols) {
  return type == DataType::kFloat32 ? (cols + 3) / 4 * size_t{4} : DeviceStride(cols);
}

}  // namespace

absl::StatusOr<void*> AttentionWorkspace::at(size_t plan) {
  while (plans_.size() <= plan) {
    auto memory = cuda::PinnedBuffer::Allocate(CudaTransformer::kPlanBytes, "a plan of attention");
    if (!memory.ok()) return memory.status();
    plans_.push_back(*std::move(memory));
  }
  return plans_[plan].as<void>();
}

CudaTransformer::CudaTransformer(const DeviceWeights& weights, cuda::DeviceMemory& memory,
                                 const cuda::DevicePool& pool, const kernels::RopeTable& rope,
                                 uint32_t max_rows, cuda::Stream stream,
                                 CudaCommunicator* communicator)
    : weights_(weights),
      memory_(memory),
      pool_(pool),
      rope_(rope),
      shape_{config().heads, config().kv_heads, config().head_dim},
      max_rows_(max_rows),
      stream_(stream),
      communicator_(communicator) {}

absl::StatusOr<std::unique_ptr<CudaTransformer>> CudaTransformer::Make(
    const DeviceWeights& weights, cuda::DeviceMemory& memory, const cuda::DevicePool& pool,
    const kernels::RopeTable& rope, uint32_t max_rows, uint32_t processors, cuda::Stream stream,
    CudaCommunicator* communicator) {
  std::unique_ptr<CudaTransformer> made(
      new CudaTransformer(weights, memory, pool, rope, max_rows, stream, communicator));
  absl::Status status = cuda::RunAll(
      {[&] { return cuda::CheckShape(made->shape_); }, [&] { return made->Allocate(processors); }});
  if (!status.ok()) return status;
  auto gemm = cuda::Gemm::Create(made->gemm_space_.as<void>(), cuda::Gemm::kWorkspaceBytes);
  if (!gemm.ok()) return gemm.status();
  made->gemm_ = *std::move(gemm);
  return made;
}

absl::StatusOr<CudaTransformer::Activations> CudaTransformer::MakeActivations(
    DataType type, uint32_t rows, uint32_t cols, absl::string_view what) {
  const size_t stride = Stride(type, cols);
  auto memory = memory_.Allocate(rows * stride * cuda::BytesOf(type), what);
  if (!memory.ok()) return memory.status();
  return Activations(*std::move(memory), type, cols, stride);
}

absl::Status CudaTransformer::Allocate(uint32_t processors) {
  const uint32_t heads = shape_.heads * shape_.head_dim;
  const uint32_t qkv = heads + 2 * shape_.kv_heads * shape_.head_dim;
  const uint32_t hidden = config().hidden;
  const uint32_t normed_rows = std::max(max_rows_, kMaxLogitRows);
  struct Wanted {
    Activations* to;
    DataType type;
    uint32_t rows, cols;
  };
  for (const auto& [to, type, rows, cols] :
       {Wanted{&hidden_, DataType::kFloat32, max_rows_, hidden},
        {&normed_, DataType::kBf16, normed_rows, hidden},
        {&loss_, DataType::kBf16, max_rows_, hidden},
        {&qkv_, DataType::kFloat32, max_rows_, qkv},
        {&q_, DataType::kBf16, max_rows_, heads},
        {&attended_, DataType::kBf16, max_rows_, heads},
        {&gate_up_, DataType::kBf16, max_rows_, 2 * config().ffn},
        {&ffn_, DataType::kBf16, max_rows_, config().ffn},
        {&gathered_, DataType::kFloat32, kMaxLogitRows, hidden},
        {&logits_, DataType::kFloat32, kMaxLogitRows, config().outputs()}}) {
    auto made = MakeActivations(type, rows, cols, "activations of a step");
    if (!made.ok()) return made.status();
    *to = *std::move(made);
  }
  auto parts =
      memory_.Allocate(cuda::AttentionPartsBytes(shape_, processors), "parts of attention");
  if (!parts.ok()) return parts.status();
  attention_parts_ = *std::move(parts);
  auto gemm = memory_.Allocate(cuda::Gemm::kWorkspaceBytes, "the workspace of products");
  if (!gemm.ok()) return gemm.status();
  gemm_space_ = *std::move(gemm);
  return absl::OkStatus();
}

absl::Status CudaTransformer::Multiply(const Tensor& in, const ConstTensor& weight,
                                       const Tensor& out, bool accumulate) {
  return gemm_->Multiply(stream_, in, weight, out, accumulate);
}

absl::Status CudaTransformer::Tune() {
  const DeviceLayerWeights& w = weights_.layers.front();
  // Shapes of decode steps, then doubling.
  const auto next = [&](uint32_t rows) {
    return std::min(rows < kMaxPaddedRows ? PaddedRows(rows + 1, max_rows_) : 2 * rows, max_rows_);
  };
  for (uint32_t rows = 1;; rows = next(rows)) {
    const auto tune = [&](const Activations& in, const ConstTensor& weight, const Activations& out,
                          bool accumulate) {
      return gemm_->Tune(stream_, in.Rows(rows), weight, out.Rows(rows), accumulate);
    };
    const auto tune_sum = [&](const Activations& in, const ConstTensor& weight) {
      if (communicator_ == nullptr) return tune(in, weight, hidden_, true);
      return gemm_->Tune(stream_, in.Rows(rows), weight, communicator_->partial(rows), false);
    };
    absl::Status status = cuda::RunAll({[&] { return tune(normed_, w.qkv, qkv_, false); },
                                        [&] { return tune_sum(attended_, w.out); },
                                        [&] { return tune(normed_, w.gate_up, gate_up_, false); },
                                        [&] { return tune_sum(ffn_, w.down); },
                                        [&] {
                                          if (rows > kMaxLogitRows) return absl::OkStatus();
                                          return tune(normed_, weights_.output, logits_, false);
                                        }});
    if (!status.ok() || rows == max_rows_) return status;
  }
}

absl::StatusOr<CudaTransformer::Plans> CudaTransformer::Plan(const StepInputs& step,
                                                             AttentionWorkspace& workspace) {
  Plans plans;
  size_t count = 0;
  for (const AttentionPart& part : step.parts) {
    plans.emplace_back();
    for (const std::vector<int32_t>& page_starts : part.page_starts) {
      if (plan_space_.size() <= count) {
        auto memory = memory_.Allocate(kPlanBytes, "a plan of attention");
        if (!memory.ok()) return memory.status();
        plan_space_.push_back(*std::move(memory));
      }
      const auto pinned = workspace.at(count);
      if (!pinned.ok()) return pinned.status();
      const cuda::AttentionOptions options{.captured = step.padded, .max_rows = step.rows};
      auto plan = cuda::PlanAttention(stream_, {part.row_starts, page_starts}, shape_,
                                      pool_.view.geometry.page_tokens, options,
                                      PlanMemory(count++, *pinned));
      if (!plan.ok()) return plan.status();
      plans.back().push_back(*plan);
    }
  }
  return plans;
}

cuda::AttentionMemory CudaTransformer::PlanMemory(size_t plan, void* pinned) const {
  return {attention_parts_.as<void>(), attention_parts_.bytes(), plan_space_[plan].as<void>(),
          pinned, kPlanBytes};
}

absl::Status CudaTransformer::Forward(const StepInputs& step, const Plans& plans,
                                      const StepInputBuilder& layout, const uint32_t* ids) {
  FOLIO_CHECK(step.rows > 0 && step.rows <= max_rows_);
  absl::Status status =
      cuda::Embed(stream_, weights_.embedding, 0, {ids, step.rows}, hidden_.Rows(step.rows));
  for (uint32_t layer = 0; layer < config().num_layers && status.ok(); ++layer) {
    status = RunLayer(layer, step, layout, plans);
  }
  if (!status.ok() || communicator_ == nullptr) return status;
  // For the last sum's sake.
  return cuda::AddRmsNorm(stream_, hidden_.Rows(step.rows), Delta(step.rows), weights_.final_norm,
                          config().norm_eps, normed_.Rows(step.rows));
}

absl::Status CudaTransformer::RunLayer(uint32_t layer, const StepInputs& step,
                                       const StepInputBuilder& layout, const Plans& plans) {
  const DeviceLayerWeights& w = weights_.layers[layer];
  const uint32_t rows = step.rows;
  const float eps = config().norm_eps;
  const Tensor hidden = hidden_.Rows(rows);
  const Tensor normed = normed_.Rows(rows);
  const Tensor qkv = qkv_.Rows(rows);
  return cuda::RunAll({
      [&] {
        const ConstTensor delta = layer > 0 ? Delta(rows) : ConstTensor();
        return cuda::AddRmsNorm(stream_, hidden, delta, w.attention_norm, eps, normed);
      },
      [&] { return Multiply(normed, w.qkv, qkv); },
      [&] {
        // See Transformer::AddRoundingLoss.
        if (layer > 0) return absl::OkStatus();
        const Tensor loss = loss_.Rows(rows);
        return cuda::RunAll({[&] {
                               return cuda::RoundingLoss(stream_, hidden, w.attention_norm, eps,
                                                         normed, loss);
                             },
                             [&] { return Multiply(loss, w.qkv, qkv, true); }});
      },
      [&] {
        return w.qkv_bias != nullptr ? cuda::AddBias(stream_, qkv, w.qkv_bias) : absl::OkStatus();
      },
      [&] {
        return cuda::RopeAppendScore(stream_, qkv, shape_, rope_, layout.slots(step, layer), pool_,
                                     q_.Rows(rows));
      },
      [&] { return Attend(layer, step, plans); },
      [&] { return ScoreWindows(layer, step); },
      [&] { return AddProduct(attended_.Rows(rows), w.out, rows); },
      [&] { return cuda::AddRmsNorm(stream_, hidden, Delta(rows), w.ffn_norm, eps, normed); },
      [&] { return FeedForward(w, rows); },
  });
}

absl::Status CudaTransformer::FeedForward(const DeviceLayerWeights& weights, uint32_t rows) {
  const Tensor gate_up = gate_up_.Rows(rows);
  const Tensor ffn = ffn_.Rows(rows);
  return cuda::RunAll({[&] { return Multiply(normed_.Rows(rows), weights.gate_up, gate_up); },
                       [&] { return cuda::SwiGlu(stream_, gate_up, ffn); },
                       [&] { return AddProduct(ffn, weights.down, rows); }});
}

absl::Status CudaTransformer::AddProduct(const Tensor& in, const ConstTensor& weight,
                                         uint32_t rows) {
  if (communicator_ == nullptr) return Multiply(in, weight, hidden_.Rows(rows), true);
  absl::Status status = Multiply(in, weight, communicator_->partial(rows));
  return status.ok() ? communicator_->AllReduce(stream_, rows) : status;
}

ConstTensor CudaTransformer::Delta(uint32_t rows) const {
  return communicator_ != nullptr ? ConstTensor(communicator_->partial(rows)) : ConstTensor();
}

absl::Status CudaTransformer::Attend(uint32_t layer, const StepInputs& step, const Plans& plans) {
  size_t before = 0;  // plans of the parts before
  for (size_t i = 0; i < step.parts.size(); ++i) {
    const AttentionPart& part = step.parts[i];
    const AttentionPart::Layer& of = part.layers[layer];
    absl::Status status = cuda::RunAttention(
        stream_, plans[i][of.lengths], q_.Rows(part.rows, part.first_row), of.tables, pool_,
        PlanMemory(before + of.lengths, nullptr), attended_.Rows(part.rows, part.first_row));
    if (!status.ok()) return status;
    before += plans[i].size();
  }
  return absl::OkStatus();
}

// The layer's queries, keys and runs are there now.
absl::Status CudaTransformer::ScoreWindows(uint32_t layer, const StepInputs& step) {
  const cuda::DeviceArray<kernels::WindowItem>& windows = step.windows[layer];
  if (windows.size == 0) return absl::OkStatus();
  CudaCommunicator::GroupQueries queries = {q_.Rows(step.rows), shape_};
  if (communicator_ != nullptr && communicator_->splits_groups()) {
    auto whole = communicator_->GatherQueries(stream_, queries.q);
    if (!whole.ok()) return whole.status();
    queries = *whole;
  }
  const size_t bytes = cuda::WindowScratchBytes(windows.size, step.window_limits, queries.shape);
  if (window_scratch_.bytes() < bytes) {
    if (absl::Status status = cuda::WaitFor(stream_); !status.ok()) return status;
    window_scratch_ = {};
    auto memory = memory_.Allocate(bytes, "scratch of a prompt's window");
    if (!memory.ok()) return memory.status();
    window_scratch_ = *std::move(memory);
  }
  return cuda::ScoreWindow(stream_, queries.q, windows, step.window_limits, queries.shape, pool_,
                           window_scratch_.as<void>());
}

absl::StatusOr<Tensor> CudaTransformer::Logits(cuda::DeviceArray<uint32_t> rows) {
  FOLIO_CHECK(rows.size <= kMaxLogitRows);
  const Tensor gathered = gathered_.Rows(rows.size);
  const Tensor normed = normed_.Rows(rows.size);
  const Tensor logits = logits_.Rows(rows.size);
  absl::Status status = cuda::RunAll(
      {[&] { return cuda::GatherRows(stream_, hidden_.Rows(max_rows_), rows, gathered); },
       [&] {
         return cuda::AddRmsNorm(stream_, gathered, {}, weights_.final_norm, config().norm_eps,
                                 normed);
       },
       [&] { return Multiply(normed, weights_.output, logits); }});
  if (!status.ok()) return status;
  if (communicator_ != nullptr) return communicator_->GatherLogits(stream_, logits);
  return logits;
}

}  // namespace folio::model
