// UnrepresentedBlock chooses a block as KVCrush does in decode (see kv_crush.h), from the halves
// that are kept between decisions. It has no state except that it ranks those.
#ifndef FOLIO_SERVICES_POLICY_CRUSH_BLOCKS_H_
#define FOLIO_SERVICES_POLICY_CRUSH_BLOCKS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/policy/crush_anchor.h"
#include "services/policy/kept_scores.h"
#include "services/policy/ranking.h"

namespace folio::policy {

// The `reps` + 1 blocks of `range` with the lowest `block_scores` are candidates, and all but one
// of these stay. They are compared by the halves of all layers. Returns the one that goes. `reps`
// is less than the number of blocks in the range.
BlockIndex UnrepresentedBlock(absl::Span<KeptScores> layers, absl::Span<const float> block_scores,
                              BlockRange range, uint32_t page_tokens, uint32_t reps,
                              CrushAnchor anchor, uint64_t seed);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_CRUSH_BLOCKS_H_
