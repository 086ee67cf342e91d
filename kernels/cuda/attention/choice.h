// This header chooses between FlashInfer's kernels in the style of FlashAttention 2 and those for
// Hopper. It is host arithmetic over lengths and includes no CUDA header.
#ifndef FOLIO_KERNELS_CUDA_ATTENTION_CHOICE_H_
#define FOLIO_KERNELS_CUDA_ATTENTION_CHOICE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/attention.h"

namespace folio::kernels::cuda::attention {

// A block of the Hopper kernels takes this many rows of one query head, and walks past the keys in
// tiles of as many tokens.
inline constexpr uint32_t kHopperTile = 128;

// Whether a plan of the Hopper kernels fits into `plan_bytes` of memory, and is one of the kind
// that is compiled, which is that of up to some 4,000 tiles per head.
bool HopperPlanFits(const AttentionWork& work, const AttentionShape& shape, uint32_t processors,
                    size_t plan_bytes);

// Whether the Hopper kernels are estimated to be faster on a GPU of 9.0 with `processors`
// multiprocessors. The work passes CheckPlan.
bool HopperIsFaster(const AttentionWork& work, const AttentionShape& shape, uint32_t processors);

}  // namespace folio::kernels::cuda::attention

#endif  // FOLIO_KERNELS_CUDA_ATTENTION_CHOICE_H_
