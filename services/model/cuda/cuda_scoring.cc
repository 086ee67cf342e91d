#include "services/model/cuda/cuda_scoring.h"

#include "absl/types/span.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/scores/scores.h"

namespace folio::model {
namespace {

namespace cuda = kernels::cuda;

// A table's pages in use.
const uint32_t* PutPages(const uint32_t* pages, uint32_t tokens, uint32_t page_tokens,
                         cuda::Uploads& uploads) {
  return uploads.Put(absl::MakeConstSpan(pages, (tokens + page_tokens - 1) / page_tokens)).data;
}

}  // namespace

void CudaScoring::Prepare(const StepRows& rows, uint32_t page_tokens, cuda::Uploads& uploads) {
  scoring_.Clear();
  for (const StepRows::Segment& one : rows.segments()) {
    const StepSegment& segment = *one.segment;
    if (!segment.score_resident) continue;
    scoring_.Add(one.sequence->table, segment.prompt, segment.scored_layers);
  }
  const auto resident = uploads.Reserve<kernels::ResidentItem>(scoring_.resident().size());
  for (size_t i = 0; i < scoring_.resident().size(); ++i) {
    kernels::ResidentItem run = scoring_.resident()[i];
    run.pages = PutPages(run.pages, run.tokens, page_tokens, uploads);
    resident.host[i] = run;
  }
  resident_ = {resident.device, static_cast<uint32_t>(scoring_.resident().size())};
  unrotated_ = PutUnrotated(scoring_.unrotated(), page_tokens, uploads);
  others_ = PutUnrotated(scoring_.unrotated_others(), page_tokens, uploads);
}

cuda::DeviceArray<kernels::UnrotatedItem> CudaScoring::PutUnrotated(
    absl::Span<const kernels::UnrotatedItem> items, uint32_t page_tokens,
    cuda::Uploads& uploads) const {
  const auto put = uploads.Reserve<kernels::UnrotatedItem>(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    kernels::UnrotatedItem run = items[i];
    run.pages = PutPages(run.pages, run.tokens, page_tokens, uploads);
    run.positions = uploads.Put(absl::MakeConstSpan(run.positions, run.tokens)).data;
    put.host[i] = run;
  }
  return {put.device, static_cast<uint32_t>(items.size())};
}

absl::Status CudaScoring::Run(cuda::Stream stream, const LayerAngles& angles,
                              const cuda::DevicePool& pool) const {
  return cuda::RunAll({[&] { return cuda::ScoreResident(stream, resident_, pool); },
                       [&] { return cuda::ScoreUnrotated(stream, unrotated_, angles.usual, pool); },
                       [&] { return cuda::ScoreUnrotated(stream, others_, angles.others, pool); }});
}

}  // namespace folio::model
