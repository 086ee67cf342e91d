#include "services/worker/engine/sequence.h"

namespace folio::worker {

CacheStats Sequence::CacheStatsOf(const model::BlockTables& table) const {
  const SequenceProgress& progress = state_.progress();
  const uint32_t ahead = progress.fed - progress.committed;  // in steps still to be collected
  const CacheGeometry& geometry = table.geometry();
  uint64_t resident = 0;
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    resident += table.resident(LayerIndex(layer)) - ahead;
  }
  return {.resident_tokens = table.most_resident() - ahead,
          .peak_resident_tokens = counters_.peak_tokens,
          .held_pages = table.total_pages(),
          .peak_held_pages = counters_.peak_pages,
          .resident_bytes = resident * geometry.kv_bytes_per_token() / geometry.num_layers,
          .evicted_tokens = progress.fed - table.least_resident(),
          .evicted_pages = counters_.evicted_pages,
          .plans = counters_.plans};
}

absl::Duration Sequence::NotePause(SteadyTime now) {
  if (!submission_->paused.load()) {
    paused_since_.reset();
    return absl::ZeroDuration();
  }
  if (!paused_since_.has_value()) paused_since_ = now;
  return now - *paused_since_;
}

void Sequence::End(CloseReason reason, const absl::Status& status) {
  if (state_.phase() == Phase::kClosing) return;
  state_.Close();
  close_reason_ = reason;
  submission_->sink->OnEnd(status);
}

}  // namespace folio::worker
