#include "services/model/cuda/cuda_sampling.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/ops/step.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/model/executor/segment_output.h"

namespace folio::model {
namespace {

namespace cuda = kernels::cuda;
using cuda::SampledToken;
using cuda::SampleRow;
using cuda::TopLogprob;

SampleRow HowTo(const StepRows::Segment& one) {
  const StepSegment& segment = *one.segment;
  SampleRow row;
  row.seed = segment.sampling.seed;
  row.temperature = segment.sampling.temperature;
  row.top_p = segment.sampling.top_p;
  row.min_p = segment.sampling.min_p;
  row.top_k = segment.sampling.top_k;
  row.position = segment.first_position.value() + one.rows;
  if (segment.target.has_value()) row.target = static_cast<int32_t>(segment.target->value());
  row.top_logprobs = segment.top_logprobs;
  return row;
}

bool Edits(const StepRows::Segment* one) {
  return one->segment->edits.any() && !one->segment->target.has_value();
}

}  // namespace

void SampledStep::Fill(StepOutput& output) const {
  const auto* tokens = tokens_.as<SampledToken>();
  for (const Wanted& wanted : wanted_) {
    const SampledToken& sampled = tokens[wanted.result];
    SegmentOutput& out = output.outputs.emplace_back();
    out.slot = wanted.slot;
    if (sampled.finite == 0) {
      out.status = NotFinite(wanted.next);
      continue;
    }
    if (sampled.left == 0) {
      out.status = NoTokenLeft();
      continue;
    }
    out.token = TokenId(sampled.token);
    if (wanted.top_logprobs < 0) continue;
    out.logprob = sampled.logprob;
    const auto* top = top_.as<TopLogprob>() + size_t{wanted.result} * max_top_;
    const uint32_t count = std::min(static_cast<uint32_t>(wanted.top_logprobs), max_top_);
    for (uint32_t j = 0; j < count; ++j)
      out.top.emplace_back(TokenId(top[j].token), top[j].logprob);
  }
}

absl::StatusOr<CudaSampling> CudaSampling::Make(cuda::DeviceMemory& memory, uint32_t max_rows) {
  CudaSampling sampling(memory);
  auto kept = memory.Allocate(kMaxSlots * sizeof(uint32_t), "last tokens");
  if (!kept.ok()) return kept.status();
  auto tokens = memory.Allocate(max_rows * sizeof(SampledToken), "sampled tokens");
  if (!tokens.ok()) return tokens.status();
  sampling.kept_ = *std::move(kept);
  sampling.tokens_ = *std::move(tokens);
  return sampling;
}

size_t CudaSampling::InputBytes(uint32_t padded_rows) {
  const size_t rows = padded_rows;
  return cuda::Uploads::BytesOf(
      {rows * sizeof(uint32_t), rows * sizeof(uint32_t), rows * sizeof(SampleRow)});
}

absl::Status CudaSampling::Prepare(const StepRows& rows, uint32_t padded_rows, uint32_t vocab,
                                   cuda::Uploads& uploads, cuda::Uploads& inputs,
                                   SampledStep& step) {
  const std::vector<const StepRows::Segment*> wanted = rows.Wanted();
  const auto edited_rows =
      static_cast<uint32_t>(std::count_if(wanted.begin(), wanted.end(), Edits));
  if (absl::Status status = MakeEdited(edited_rows, vocab, step); !status.ok()) return status;
  auto* edited = edited_.as<float>();
  step.wanted_.clear();
  step.max_top_ = 0;
  step.results_ = padded_rows > 0 ? padded_rows : static_cast<uint32_t>(wanted.size());
  const auto from = inputs.Reserve<uint32_t>(step.results_);
  const auto slots = inputs.Reserve<uint32_t>(step.results_);
  const auto how = inputs.Reserve<SampleRow>(step.results_);
  // Padding rows get the likeliest token, which is not kept.
  for (uint32_t i = 0; i < step.results_; ++i) {
    from.host[i] = i;
    slots.host[i] = cuda::kNotKept;
    how.host[i] = {};
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const StepRows::Segment& one = *wanted[i];
    const uint32_t slot = one.segment->slot.value();
    if (slot >= kMaxSlots) {
      return absl::ResourceExhaustedError(
          absl::StrCat("more than ", kMaxSlots, " sequences at once"));
    }
    const uint32_t last_row = one.first_row + one.rows - 1;
    const uint32_t result = padded_rows > 0 ? last_row : static_cast<uint32_t>(i);
    from.host[result] = last_row;
    slots.host[result] = slot;
    how.host[result] = HowTo(one);
    if (Edits(wanted[i])) {
      how.host[result].edits = UploadEdits(*one.segment, edited, uploads);
      edited += vocab;
    }
    step.wanted_.push_back({result, one.segment->slot,
                            Position(one.segment->first_position.value() + one.rows),
                            one.segment->top_logprobs});
    if (one.segment->top_logprobs > 0) {
      step.max_top_ = std::max(step.max_top_,
                               std::min(static_cast<uint32_t>(one.segment->top_logprobs), vocab));
    }
  }
  rows_ = from.device;
  slots_ = slots.device;
  how_ = how.device;
  return MakeRoom(step);
}

absl::Status CudaSampling::MakeEdited(uint32_t rows, uint32_t vocab, SampledStep& step) {
  step.outgrown_edited_ = {};
  const size_t bytes = size_t{rows} * vocab * sizeof(float);
  if (edited_.bytes() >= bytes) return absl::OkStatus();
  auto more = memory_->Allocate(2 * bytes, "changed logits of a step");
  if (!more.ok()) return more.status();
  step.outgrown_edited_ = std::exchange(edited_, *std::move(more));
  return absl::OkStatus();
}

cuda::RowEdits CudaSampling::UploadEdits(const StepSegment& segment, float* edited,
                                         cuda::Uploads& uploads) const {
  const LogitEdits& edits = segment.edits;
  const auto tokens = uploads.Reserve<cuda::LogitEdit>(edits.tokens.size());
  for (size_t i = 0; i < edits.tokens.size(); ++i) {
    const LogitEdit& edit = edits.tokens[i];
    tokens.host[i] = {edit.token.value(), edit.in_answer, edit.in_text ? 1U : 0U, edit.bias};
  }
  cuda::RowEdits row;
  row.edited = edited;
  row.tokens = tokens.device;
  row.count = static_cast<uint32_t>(edits.tokens.size());
  if (!edits.allowed.empty()) {
    const auto allowed = uploads.Put(edits.allowed);
    row.allowed = allowed.data;
    row.allowed_words = allowed.size;
  }
  if (edits.counts_last) row.last = kept() + segment.slot.value();
  row.presence_penalty = edits.presence_penalty;
  row.frequency_penalty = edits.frequency_penalty;
  row.repetition_penalty = edits.repetition_penalty;
  return row;
}

absl::Status CudaSampling::MakeRoom(SampledStep& step) {
  const size_t top_bytes = size_t{step.results_} * step.max_top_ * sizeof(TopLogprob);
  // The host's memory of a step is free once the step was collected.
  for (const auto& [buffer, bytes] :
       {std::pair{&step.tokens_, step.results_ * sizeof(SampledToken)}, {&step.top_, top_bytes}}) {
    if (buffer->bytes() >= bytes) continue;
    auto memory = cuda::PinnedBuffer::Allocate(2 * bytes, "results of a step");
    if (!memory.ok()) return memory.status();
    *buffer = *std::move(memory);
  }
  step.outgrown_ = {};
  if (top_.bytes() >= top_bytes) return absl::OkStatus();
  auto top = memory_->Allocate(2 * top_bytes, "log-probabilities of a step");
  if (!top.ok()) return top.status();
  step.outgrown_ = std::exchange(top_, *std::move(top));
  return absl::OkStatus();
}

absl::Status CudaSampling::Run(CudaTransformer& transformer, cuda::Stream stream,
                               const SampledStep& step) const {
  const uint32_t all = step.results_;
  auto* tokens = tokens_.as<SampledToken>();
  // That buffer may be another one next time.
  auto* top = step.max_top_ > 0 ? top_.as<TopLogprob>() : nullptr;
  CudaCommunicator* const communicator = transformer.communicator();
  for (uint32_t first = 0; first < all; first += CudaTransformer::kMaxLogitRows) {
    const uint32_t count = std::min(CudaTransformer::kMaxLogitRows, all - first);
    const auto logits = transformer.Logits({rows_ + first, count});
    if (!logits.ok()) return logits.status();
    if (communicator != nullptr && !communicator->leads()) continue;
    if (absl::Status status = cuda::Sample(stream, *logits, {how_ + first, count}, tokens + first,
                                           top + size_t{first} * step.max_top_, step.max_top_);
        !status.ok()) {
      return status;
    }
  }
  if (communicator != nullptr && all > 0) {
    absl::Status status = communicator->BroadcastTokens(stream, tokens, all * sizeof(SampledToken));
    if (!status.ok()) return status;
  }
  return cuda::KeepTokens(stream, tokens, {slots_, all}, kept_.as<uint32_t>());
}

absl::Status CudaSampling::Return(cuda::Stream stream, const SampledStep& step) const {
  absl::Status status = cuda::CopyToHost(stream, step.tokens_.as<>(), tokens_.as<>(),
                                         step.results_ * sizeof(SampledToken));
  status.Update(cuda::CopyToHost(stream, step.top_.as<>(), top_.as<>(),
                                 size_t{step.results_} * step.max_top_ * sizeof(TopLogprob)));
  return status;
}

}  // namespace folio::model
