#include "services/model/cuda_sampling.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/step.h"
#include "kernels/cuda/stream.h"
#include "services/model/segment_output.h"

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

}  // namespace

void SampledStep::Fill(StepOutput& output) const {
  const auto* tokens = tokens_.as<SampledToken>();
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const Wanted& wanted = wanted_[i];
    if (tokens[i].finite == 0) output.status.Update(NotFinite(wanted.next));
    SegmentOutput& out = output.outputs.emplace_back();
    out.slot = wanted.slot;
    out.token = TokenId(tokens[i].token);
    if (wanted.top_logprobs < 0) continue;
    out.logprob = tokens[i].logprob;
    const auto* top = top_.as<TopLogprob>() + i * most_top_;
    const uint32_t count = std::min(static_cast<uint32_t>(wanted.top_logprobs), most_top_);
    for (uint32_t j = 0; j < count; ++j)
      out.top.emplace_back(TokenId(top[j].token), top[j].logprob);
  }
}

absl::StatusOr<CudaSampling> CudaSampling::Make(cuda::DeviceMemory& memory, uint32_t max_rows) {
  CudaSampling sampling(memory);
  auto kept = memory.Allocate(kMostSlots * sizeof(uint32_t), "last tokens");
  if (!kept.ok()) return kept.status();
  auto tokens = memory.Allocate(max_rows * sizeof(SampledToken), "sampled tokens");
  if (!tokens.ok()) return tokens.status();
  sampling.kept_ = *std::move(kept);
  sampling.tokens_ = *std::move(tokens);
  return sampling;
}

absl::Status CudaSampling::Prepare(const StepRows& rows, uint32_t vocab, cuda::Uploads& uploads,
                                   cuda::Stream stream, SampledStep& step) {
  const std::vector<const StepRows::Segment*> wanted = rows.Wanted();
  step.wanted_.clear();
  step.most_top_ = 0;
  const auto last_rows = uploads.Reserve<uint32_t>(wanted.size());
  const auto slots = uploads.Reserve<uint32_t>(wanted.size());
  const auto how = uploads.Reserve<SampleRow>(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const StepRows::Segment& one = *wanted[i];
    const uint32_t slot = one.segment->slot.value();
    if (slot >= kMostSlots) {
      return absl::ResourceExhaustedError(
          absl::StrCat("more than ", kMostSlots, " sequences at once"));
    }
    last_rows.host[i] = one.first_row + one.rows - 1;
    slots.host[i] = slot;
    how.host[i] = HowTo(one);
    step.wanted_.push_back({one.segment->slot,
                            Position(one.segment->first_position.value() + one.rows),
                            one.segment->top_logprobs});
    if (one.segment->top_logprobs > 0) {
      step.most_top_ = std::max(step.most_top_,
                                std::min(static_cast<uint32_t>(one.segment->top_logprobs), vocab));
    }
  }
  rows_ = last_rows.device;
  slots_ = slots.device;
  how_ = how.device;
  // The host's memory of a step is free once the step was collected.
  for (const auto& [buffer, bytes] :
       {std::pair{&step.tokens_, wanted.size() * sizeof(SampledToken)},
        {&step.top_, wanted.size() * step.most_top_ * sizeof(TopLogprob)}}) {
    if (buffer->bytes() >= bytes) continue;
    auto memory = cuda::PinnedBuffer::Allocate(2 * bytes, "results of a step");
    if (!memory.ok()) return memory.status();
    *buffer = *std::move(memory);
  }
  const size_t top_bytes = wanted.size() * step.most_top_ * sizeof(TopLogprob);
  if (top_.bytes() >= top_bytes) return absl::OkStatus();
  if (absl::Status status = cuda::WaitFor(stream); !status.ok()) return status;
  top_ = {};
  auto top = memory_->Allocate(2 * top_bytes, "log-probabilities of a step");
  if (!top.ok()) return top.status();
  top_ = *std::move(top);
  return absl::OkStatus();
}

absl::Status CudaSampling::Run(CudaTransformer& transformer, cuda::Stream stream,
                               const SampledStep& step) const {
  const auto all = static_cast<uint32_t>(step.wanted_.size());
  auto* tokens = tokens_.as<SampledToken>();
  auto* top = top_.as<TopLogprob>();
  for (uint32_t first = 0; first < all; first += CudaTransformer::kMaxLogitRows) {
    const uint32_t count = std::min(CudaTransformer::kMaxLogitRows, all - first);
    const auto logits = transformer.Logits({rows_ + first, count});
    if (!logits.ok()) return logits.status();
    if (absl::Status status = cuda::Sample(stream, *logits, {how_ + first, count}, tokens + first,
                                           top + size_t{first} * step.most_top_, step.most_top_);
        !status.ok()) {
      return status;
    }
  }
  absl::Status status = cuda::KeepTokens(stream, tokens, {slots_, all}, kept_.as<uint32_t>());
  if (!status.ok()) return status;
  status.Update(cuda::CopyToHost(stream, step.tokens_.as<>(), tokens, all * sizeof(SampledToken)));
  status.Update(cuda::CopyToHost(stream, step.top_.as<>(), top,
                                 size_t{all} * step.most_top_ * sizeof(TopLogprob)));
  return status;
}

}  // namespace folio::model
