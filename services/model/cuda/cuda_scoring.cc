#include "services/model/cuda/cuda_scoring.h"

#include "absl/types/span.h"
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
    if (one.segment->score_resident) scoring_.Add(one.sequence->table, one.segment->prompt);
  }
  const auto resident = uploads.Reserve<kernels::ResidentItem>(scoring_.resident().size());
  for (size_t i = 0; i < scoring_.resident().size(); ++i) {
    kernels::ResidentItem run = scoring_.resident()[i];
    run.pages = PutPages(run.pages, run.tokens, page_tokens, uploads);
    resident.host[i] = run;
  }
  resident_ = {resident.device, static_cast<uint32_t>(scoring_.resident().size())};
  const auto unrotated = uploads.Reserve<kernels::UnrotatedItem>(scoring_.unrotated().size());
  for (size_t i = 0; i < scoring_.unrotated().size(); ++i) {
    kernels::UnrotatedItem run = scoring_.unrotated()[i];
    run.pages = PutPages(run.pages, run.tokens, page_tokens, uploads);
    run.positions = uploads.Put(absl::MakeConstSpan(run.positions, run.tokens)).data;
    unrotated.host[i] = run;
  }
  unrotated_ = {unrotated.device, static_cast<uint32_t>(scoring_.unrotated().size())};
}

absl::Status CudaScoring::Run(cuda::Stream stream, const kernels::RopeTable& rope,
                              const cuda::DevicePool& pool) const {
  if (absl::Status status = cuda::ScoreResident(stream, resident_, pool); !status.ok()) {
    return status;
  }
  return cuda::ScoreUnrotated(stream, unrotated_, rope, pool);
}

}  // namespace folio::model
