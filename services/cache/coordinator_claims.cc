// The part of coordinator.h that gives orphans to other workers.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cache/coordinator.h"
#include "services/cache/sequence_footprint.h"

namespace folio::cache {
namespace {

// Whether an empty pool has room for the sequence also if a worker with such chunks computes it.
absl::Status CheckFits(const SequenceRecord& record, TokenCount prefill_ahead, PageCount total) {
  SequenceFootprint wider = record.footprint;
  if (!wider.Widen(prefill_ahead) || wider.WorstCase() <= total.value()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "sequence ", record.id.value(), " never fits: with chunks of this worker it may need ",
      wider.WorstCase(), " pages, the whole pool has ", total.value(),
      "; lower the worker's --prefill_chunk"));
}

}  // namespace

absl::StatusOr<Claimed> Coordinator::Claim(const ClaimRequest& request) {
  const SteadyTime now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  if (absl::Status s = leases_.Renew(request.worker, now); !s.ok()) return s;
  absl::StatusOr<Sequence*> orphan = orphanage_.FindClaimable(request);
  if (!orphan.ok()) return orphan.status();
  const TokenCount ahead = request.abilities.prefill_ahead;
  if (absl::Status fits = CheckFits((*orphan)->record(), ahead, pool_.total()); !fits.ok()) {
    return fits;
  }
  (*orphan)->Widen(ahead, pool_);
  Claimed claimed;
  if ((*orphan)->record().parked) {
    const bool swapped = (*orphan)->record().swap.use == SwapUse::kOut;
    if (swapped && !request.abilities.swaps) (*orphan)->Park(pool_, /*swapped=*/false);
    std::vector<SequenceId> ended;
    absl::Status admitted =
        Admit(**orphan, {request.worker, request.sequence}, request.abilities.parks, &ended);
    if (!admitted.ok()) return admitted;
    claimed = (*orphan)->Claim(request, pool_, now);
    claimed.ended = std::move(ended);
  } else {
    claimed = (*orphan)->Claim(request, pool_, now);
  }
  if ((*orphan)->record().starved) preemption_.NoteShortage();
  observer_.OnClaimed();
  const SequenceSwap& swap = (*orphan)->record().swap;
  if (swap.use == SwapUse::kIn) observer_.OnParking(ParkingEvent::kSwappedIn, swap.slots.size());
  return claimed;
}

}  // namespace folio::cache
