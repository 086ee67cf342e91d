#include "services/model/cuda/cuda_transformer.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/ops/decode_attention.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/scores/scores.h"
#include "services/base/check.h"

namespace folio::model {
namespace {

namespace cuda = kernels::cuda;
using cuda::DataType;
using cuda::Tensor;

cuda::DecodeTables TablesOf(const AttentionPart::Layer& layer) {
  const cuda::LayerTables& tables = layer.tables;
  return {tables.pages, tables.page_starts, tables.last_tokens, layer.window};
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
                                 const cuda::DevicePool& pool, const LayerAngles& rope,
                                 uint32_t max_rows, uint32_t processors, cuda::Stream stream,
                                 CudaCommunicator* communicator)
    : weights_(weights),
      memory_(memory),
      pool_(pool),
      rope_(rope),
      shape_{config().heads, config().kv_heads, config().head_dim},
      max_rows_(max_rows),
      processors_(processors),
      stream_(stream),
      communicator_(communicator) {}

absl::StatusOr<std::unique_ptr<CudaTransformer>> CudaTransformer::Make(
    const DeviceWeights& weights, cuda::DeviceMemory& memory, const cuda::DevicePool& pool,
    const LayerAngles& rope, uint32_t processors, cuda::Stream stream,
    const CudaExecutorOptions& options) {
  CudaCommunicator* const communicator = options.communicator.get();
  std::unique_ptr<CudaTransformer> made(new CudaTransformer(
      weights, memory, pool, rope, options.max_rows, processors, stream, communicator));
  absl::Status status = cuda::RunAll({[&] { return cuda::CheckShape(made->shape_); },
                                      [&] { return made->Allocate(options.decode_kernels); }});
  if (!status.ok()) return status;
  auto products = CudaProducts::Make(weights, memory, stream,
                                     {.max_rows = options.max_rows,
                                      .max_logit_rows = kMaxLogitRows,
                                      .processors = processors,
                                      .communicator = communicator,
                                      .own_kernels = options.decode_kernels,
                                      .own_rows = options.own_rows});
  if (!products.ok()) return products.status();
  made->products_ = *std::move(products);
  return made;
}

absl::Status CudaTransformer::Allocate(bool decode_kernels) {
  const uint32_t heads = shape_.heads * shape_.head_dim;
  const uint32_t qkv = heads + 2 * shape_.kv_heads * shape_.head_dim;
  const uint32_t hidden = config().hidden;
  struct Wanted {
    Activations* to;
    DataType type;
    uint32_t rows, cols;
  };
  for (const auto& [to, type, rows, cols] :
       {Wanted{&hidden_, DataType::kFloat32, max_rows_, hidden},
        {&qkv_, DataType::kFloat32, max_rows_, qkv},
        {&q_, DataType::kBf16, max_rows_, heads},
        {&attended_, DataType::kBf16, max_rows_, heads},
        {&gathered_, DataType::kFloat32, kMaxLogitRows, hidden}}) {
    auto made = Activations::Make(memory_, type, rows, cols);
    if (!made.ok()) return made.status();
    *to = *std::move(made);
  }
  auto parts =
      memory_.Allocate(cuda::AttentionPartsBytes(shape_, processors_), "parts of attention");
  if (!parts.ok()) return parts.status();
  attention_parts_ = *std::move(parts);
  return decode_kernels && cuda::ServesDecodeAttention(shape_, pool_) ? AllocateDecodeSpace()
                                                                      : absl::OkStatus();
}

absl::Status CudaTransformer::AllocateDecodeSpace() {
  auto space = memory_.Allocate(cuda::DecodeAttentionBytes(shape_, processors_),
                                "parts of attention of decode rows");
  if (!space.ok()) return space.status();
  decode_space_ = *std::move(space);
  return cuda::Zero(decode_space_);
}

// Each run is one row, which sees all of its context.
bool CudaTransformer::Decodes(const AttentionPart& part) const {
  return decode_space_.bytes() > 0 && part.rows + 1 == part.row_starts.size();
}

absl::StatusOr<CudaTransformer::Plans> CudaTransformer::Plan(const StepInputs& step,
                                                             AttentionWorkspace& workspace) {
  Plans plans;
  size_t count = 0;
  for (const AttentionPart& part : step.parts) {
    plans.emplace_back();
    if (Decodes(part)) continue;
    for (const AttentionPart::Lengths& lengths : part.lengths) {
      if (plan_space_.size() <= count) {
        auto memory = memory_.Allocate(kPlanBytes, "a plan of attention");
        if (!memory.ok()) return memory.status();
        plan_space_.push_back(*std::move(memory));
      }
      const auto pinned = workspace.at(count);
      if (!pinned.ok()) return pinned.status();
      const cuda::AttentionOptions options{
          .captured = step.padded, .max_rows = step.rows, .window = lengths.window};
      auto plan = cuda::PlanAttention(stream_, {part.row_starts, lengths.contexts}, shape_,
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
  absl::Status status = cuda::Embed(stream_, weights_.embedding, 0, {ids, step.rows},
                                    config().embedding_scale, hidden_.Rows(step.rows));
  for (uint32_t layer = 0; layer < config().num_layers && status.ok(); ++layer) {
    status = RunLayer(layer, step, layout, plans);
  }
  return status.ok() ? products_->Finish(hidden_.Rows(step.rows)) : status;
}

absl::Status CudaTransformer::RunLayer(uint32_t layer, const StepInputs& step,
                                       const StepInputBuilder& layout, const Plans& plans) {
  const Tensor hidden = hidden_.Rows(step.rows);
  const Tensor qkv = qkv_.Rows(step.rows);
  const cuda::DeviceArray<kernels::AppendSlot> slots = layout.slots(step, layer);
  const bool at_once = AppendsAtOnce(layer, step);
  const kernels::RopeTable& rope = rope_.of(config().is_other(layer));
  return cuda::RunAll({
      [&] { return products_->Qkv(layer, hidden, qkv); },
      [&] { return NormHeads(weights_.layers[layer], qkv); },
      [&] { return ScaleQueries(slots, qkv); },
      [&] {
        if (at_once) return AppendAndAttend(step.parts.front().layers[layer], {qkv, rope, slots});
        return cuda::RopeAppendScore(stream_, qkv, shape_, rope, slots, pool_, q_.Rows(step.rows));
      },
      [&] { return at_once ? absl::OkStatus() : Attend(layer, step, plans); },
      [&] { return ScoreWindows(layer, step); },
      [&] { return products_->AddAttended(layer, attended_.Rows(step.rows), hidden); },
      [&] { return products_->AddFeedForward(layer, hidden); },
  });
}

absl::Status CudaTransformer::NormHeads(const DeviceLayerWeights& weights, const Tensor& qkv) {
  if (weights.query_norm == nullptr) return absl::OkStatus();
  return cuda::NormHeads(stream_, qkv, shape_,
                         {weights.query_norm, weights.key_norm, config().norm_eps});
}

absl::Status CudaTransformer::ScaleQueries(const cuda::DeviceArray<kernels::AppendSlot>& slots,
                                           const Tensor& qkv) {
  const auto& scale = config().query_scale;
  if (!scale.has_value()) return absl::OkStatus();
  return cuda::ScaleQueries(stream_, qkv, shape_, {scale->beta, scale->original_context}, slots);
}

// Windows read the rotated queries, which are then stored nowhere.
bool CudaTransformer::AppendsAtOnce(uint32_t layer, const StepInputs& step) const {
  const AttentionPart& first = step.parts.front();
  return Decodes(first) && first.rows == step.rows && step.windows[layer].size == 0;
}

absl::Status CudaTransformer::AppendAndAttend(const AttentionPart::Layer& of,
                                              const cuda::DecodeRows& rows) {
  return cuda::AppendDecodeAttention(stream_, rows, TablesOf(of), shape_, pool_,
                                     {decode_space_.as<void>(), processors_},
                                     attended_.Rows(rows.slots.size));
}

absl::Status CudaTransformer::Attend(uint32_t layer, const StepInputs& step, const Plans& plans) {
  size_t before = 0;  // plans of the parts before
  for (size_t i = 0; i < step.parts.size(); ++i) {
    const AttentionPart& part = step.parts[i];
    const AttentionPart::Layer& of = part.layers[layer];
    const Tensor q = q_.Rows(part.rows, part.first_row);
    const Tensor attended = attended_.Rows(part.rows, part.first_row);
    absl::Status status =
        Decodes(part) ? cuda::DecodeAttention(stream_, q, TablesOf(of), shape_, pool_,
                                              {decode_space_.as<void>(), processors_}, attended)
                      : cuda::RunAttention(stream_, plans[i][of.lengths], q, of.tables, pool_,
                                           PlanMemory(before + of.lengths, nullptr), attended);
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
  absl::Status status = cuda::GatherRows(stream_, hidden_.Rows(max_rows_), rows, gathered);
  if (!status.ok()) return status;
  auto logits = products_->Logits(gathered);
  if (!logits.ok() || communicator_ == nullptr) return logits;
  return communicator_->GatherLogits(stream_, *logits);
}

}  // namespace folio::model
