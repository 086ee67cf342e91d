#include "tests/bench/plain_decode.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/ops/step.h"

namespace folio::bench {
namespace {

namespace cuda = kernels::cuda;
using cuda::DataType;

constexpr uint32_t kFirstToken = 17;

}  // namespace

PlainDecode::PlainDecode(const GpuModel& model, uint32_t batch, uint32_t context, uint32_t steps)
    : model_(model),
      weights_(model.weights()),
      pool_(model.pool()),
      shape_{model.config().heads, model.config().kv_heads, model.config().head_dim},
      batch_(batch),
      pages_of_each_(pool_.view.geometry.pages_for(context + steps)),
      context_(context) {}

absl::StatusOr<std::unique_ptr<PlainDecode>> PlainDecode::Make(const GpuModel& model,
                                                               uint32_t batch, uint32_t context,
                                                               uint32_t steps) {
  std::unique_ptr<PlainDecode> made(new PlainDecode(model, batch, context, steps));
  const uint64_t wanted = uint64_t{made->pages_of_each_} * batch * model.config().num_layers;
  if (wanted > model.pool().view.num_pages) {
    return absl::ResourceExhaustedError(
        absl::StrCat("wants ", wanted, " pages of ", model.pool().view.num_pages));
  }
  if (absl::Status status = made->Allocate(); !status.ok()) return status;
  return made;
}

absl::Status PlainDecode::MakeBuffer(DataType type, uint32_t cols, Buffer* to) {
  const size_t stride = model::DeviceStride(cols);
  auto memory = memory_.Allocate(batch_ * stride * cuda::BytesOf(type), "activations of the peer");
  if (!memory.ok()) return memory.status();
  to->memory = *std::move(memory);
  to->tensor = {to->memory.as<void>(), type, batch_, cols, stride};
  return absl::OkStatus();
}

absl::Status PlainDecode::Allocate() {
  const model::ModelConfig& c = model_.config();
  const uint32_t heads = c.heads * c.head_dim;
  const auto device = cuda::UseDevice(0);
  if (!device.ok()) return device.status();
  auto stream = cuda::OwnedStream::Create();
  if (!stream.ok()) return stream.status();
  stream_ = std::make_unique<cuda::OwnedStream>(*std::move(stream));
  tables_on_device_ = std::make_unique<cuda::Uploads>(memory_);
  if (absl::Status made = MakeSpaces(); !made.ok()) return made;
  const auto take = [&](size_t bytes, cuda::DeviceBuffer* to) {
    auto memory = memory_.Allocate(bytes, "memory of the peer");
    if (!memory.ok()) return memory.status();
    *to = *std::move(memory);
    return absl::OkStatus();
  };
  absl::Status status = cuda::RunAll({
      [&] { return MakeBuffer(DataType::kFloat32, c.hidden, &hidden_); },
      [&] { return MakeBuffer(DataType::kBf16, c.hidden, &normed_); },
      [&] { return MakeBuffer(DataType::kFloat32, heads + 2 * c.kv_heads * c.head_dim, &qkv_); },
      [&] { return MakeBuffer(DataType::kBf16, heads, &q_); },
      [&] { return MakeBuffer(DataType::kBf16, heads, &attended_); },
      [&] { return MakeBuffer(DataType::kBf16, 2 * c.ffn, &gate_up_); },
      [&] { return MakeBuffer(DataType::kBf16, c.ffn, &ffn_); },
      [&] { return MakeBuffer(DataType::kFloat32, c.outputs(), &logits_); },
      [&] { return take(batch_ * sizeof(uint32_t), &ids_); },
      [&] { return take(batch_ * sizeof(cuda::SampledToken), &sampled_); },
      [&] { return take(cuda::AttentionPartsBytes(shape_, device->processors), &parts_); },
      [&] { return take(cuda::kAttentionPlanBytes, &plan_memory_); },
      [&] { return take(cuda::Gemm::kWorkspaceBytes, &gemm_space_); },
  });
  if (!status.ok()) return status;
  auto gemm = cuda::Gemm::Create(gemm_space_.as<void>(), cuda::Gemm::kWorkspaceBytes);
  if (!gemm.ok()) return gemm.status();
  gemm_ = *std::move(gemm);
  const std::vector<uint32_t> first(batch_, kFirstToken);
  const auto ids = space().uploads.Put(absl::MakeConstSpan(first));
  const model::DeviceLayerWeights& w = weights_.layers.front();
  const auto tune = [&](const Buffer& in, const cuda::ConstTensor& weight, const Buffer& out,
                        bool add) {
    return gemm_->Tune(stream_->get(), in.tensor, weight, out.tensor, add);
  };
  return cuda::RunAll(
      {[&] { return space().uploads.Flush(stream_->get()); },
       [&] { return cuda::FeedTokens(stream_->get(), ids, nullptr, ids_.as<uint32_t>()); },
       [&] { return tune(normed_, w.qkv, qkv_, false); },
       [&] { return tune(attended_, w.out, hidden_, true); },
       [&] { return tune(normed_, w.gate_up, gate_up_, false); },
       [&] { return tune(ffn_, w.down, hidden_, true); },
       [&] { return tune(normed_, weights_.output, logits_, false); }});
}

absl::Status PlainDecode::MakeSpaces() {
  for (int i = 0; i < 2; ++i) {
    auto plan = cuda::PinnedBuffer::Allocate(cuda::kAttentionPlanBytes, "the peer's plan");
    if (!plan.ok()) return plan.status();
    auto done = cuda::Event::Create();
    if (!done.ok()) return done.status();
    spaces_.push_back(std::make_unique<Space>(memory_, *std::move(plan), *std::move(done)));
  }
  return absl::OkStatus();
}

// Every sequence's tables grow at the same steps. Those before may still be read.
absl::Status PlainDecode::BuildTables(uint32_t pages) {
  if (absl::Status status = Finish(); !status.ok()) return status;
  tables_on_device_->Clear();
  const uint32_t layers = model_.config().num_layers;
  tables_.resize(layers);
  std::vector<int32_t> table;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    table.clear();
    for (uint32_t i = 0; i < batch_; ++i) {
      const uint32_t first = (i * layers + layer) * pages_of_each_;
      for (uint32_t page = 0; page < pages; ++page) {
        table.push_back(static_cast<int32_t>(first + page));
      }
    }
    tables_[layer].pages = tables_on_device_->Put(absl::MakeConstSpan(table)).data;
  }
  laid_pages_ = pages;
  return tables_on_device_->Flush(stream_->get());
}

absl::Status PlainDecode::Build() {
  cuda::Uploads& uploads = space().uploads;
  if (absl::Status status = space().done.Wait(); !status.ok()) return status;
  uploads.Clear();
  const uint32_t layers = model_.config().num_layers;
  const uint32_t page_tokens = pool_.view.geometry.page_tokens;
  const uint32_t pages = pool_.view.geometry.pages_for(context_ + 1);
  if (pages != laid_pages_) {
    if (absl::Status status = BuildTables(pages); !status.ok()) return status;
  }
  std::vector<int32_t> row_starts, page_starts;
  for (uint32_t i = 0; i <= batch_; ++i) {
    row_starts.push_back(static_cast<int32_t>(i));
    page_starts.push_back(static_cast<int32_t>(i * pages));
  }
  const std::vector<int32_t> contexts(batch_, static_cast<int32_t>(context_ + 1));
  const std::vector<int32_t> last(batch_, static_cast<int32_t>(context_ % page_tokens + 1));
  cuda::LayerTables lengths;
  lengths.row_starts = uploads.Put(absl::MakeConstSpan(row_starts)).data;
  lengths.page_starts = uploads.Put(absl::MakeConstSpan(page_starts)).data;
  lengths.last_tokens = uploads.Put(absl::MakeConstSpan(last)).data;
  std::vector<kernels::AppendSlot> slots(batch_);
  slots_.clear();
  for (uint32_t layer = 0; layer < layers; ++layer) {
    for (uint32_t i = 0; i < batch_; ++i) {
      const uint32_t first = (i * layers + layer) * pages_of_each_;
      slots[i] = {first + context_ / page_tokens, context_ % page_tokens, context_,
                  kernels::ScoreKind::kNone};
    }
    slots_.push_back(uploads.Put(absl::MakeConstSpan(slots)));
    lengths.pages = tables_[layer].pages;
    tables_[layer] = lengths;
  }
  std::vector<cuda::SampleRow> rows(batch_);
  std::vector<uint32_t> places(batch_);
  for (uint32_t i = 0; i < batch_; ++i) {
    rows[i].position = context_ + 1;
    places[i] = i;
  }
  rows_ = uploads.Put(absl::MakeConstSpan(rows));
  places_ = uploads.Put(absl::MakeConstSpan(places));
  if (absl::Status status = uploads.Flush(stream_->get()); !status.ok()) return status;
  auto plan = cuda::PlanAttention(stream_->get(), {row_starts, contexts}, shape_, page_tokens, {},
                                  {parts_.as<void>(), parts_.bytes(), plan_memory_.as<void>(),
                                   space().plan.as<void>(), plan_memory_.bytes()});
  if (!plan.ok()) return plan.status();
  plan_ = *plan;
  return absl::OkStatus();
}

absl::Status PlainDecode::RunLayer(uint32_t layer) {
  const model::DeviceLayerWeights& w = weights_.layers[layer];
  const cuda::Stream stream = stream_->get();
  const float eps = model_.config().norm_eps;
  const auto multiply = [&](const Buffer& in, const cuda::ConstTensor& weight, const Buffer& out,
                            bool add) {
    return gemm_->Multiply(stream, in.tensor, weight, out.tensor, add);
  };
  return cuda::RunAll({
      [&] {
        return cuda::AddRmsNorm(stream, hidden_.tensor, {}, w.attention_norm, eps, normed_.tensor);
      },
      [&] { return multiply(normed_, w.qkv, qkv_, false); },
      [&] {
        return cuda::RopeAppendScore(stream, qkv_.tensor, shape_, model_.angles(), slots_[layer],
                                     pool_, q_.tensor);
      },
      [&] {
        return cuda::RunAttention(stream, plan_, q_.tensor, tables_[layer], pool_,
                                  {parts_.as<void>(), parts_.bytes(), plan_memory_.as<void>(),
                                   nullptr, plan_memory_.bytes()},
                                  attended_.tensor);
      },
      [&] { return multiply(attended_, w.out, hidden_, true); },
      [&] { return cuda::AddRmsNorm(stream, hidden_.tensor, {}, w.ffn_norm, eps, normed_.tensor); },
      [&] { return multiply(normed_, w.gate_up, gate_up_, false); },
      [&] { return cuda::Glu(stream, kernels::Activation::kSilu, gate_up_.tensor, ffn_.tensor); },
      [&] { return multiply(ffn_, w.down, hidden_, true); },
  });
}

absl::Status PlainDecode::SampleNext() {
  const cuda::Stream stream = stream_->get();
  auto* sampled = sampled_.as<cuda::SampledToken>();
  return cuda::RunAll({
      [&] {
        return cuda::AddRmsNorm(stream, hidden_.tensor, {}, weights_.final_norm,
                                model_.config().norm_eps, normed_.tensor);
      },
      [&] {
        return gemm_->Multiply(stream, normed_.tensor, weights_.output, logits_.tensor, false);
      },
      [&] { return cuda::Sample(stream, logits_.tensor, rows_, sampled, nullptr, 0); },
      [&] { return cuda::KeepTokens(stream, sampled, places_, ids_.as<uint32_t>()); },
  });
}

absl::Status PlainDecode::RunLayers() {
  absl::Status status = cuda::Embed(stream_->get(), weights_.embedding, 0,
                                    {ids_.as<uint32_t>(), batch_}, 1, hidden_.tensor);
  for (uint32_t layer = 0; layer < model_.config().num_layers && status.ok(); ++layer) {
    status = RunLayer(layer);
  }
  return status;
}

absl::Status PlainDecode::Step() {
  if (model_.config().context <= context_ + 1 ||
      pool_.view.geometry.pages_for(context_ + 1) > pages_of_each_) {
    return absl::FailedPreconditionError("no room for another step");
  }
  absl::Status status = cuda::RunAll({[&] { return Build(); }, [&] { return RunLayers(); },
                                      [&] { return SampleNext(); },
                                      [&] { return space().done.Record(stream_->get()); }});
  ++context_;
  ++steps_;
  return status;
}

}  // namespace folio::bench
