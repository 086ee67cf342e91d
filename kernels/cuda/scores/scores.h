// This header has the scores of resident tokens that are written on demand. They are twins of
// CpuOps::ScoreResident, ScoreUnrotated and ScoreWindow, which define them. Calls and errors are as
// in kernels/cuda/ops/ops.h.
//
// The items of one call may belong to different sequences and, except for windows, to different
// layers. A call for all layers at once keeps the whole GPU busy where one layer's heads do not.
// Items, tables and positions lie on the device. Calls do nothing if the pool has no score board.
// head_dim is even and at most 128.
#ifndef FOLIO_KERNELS_CUDA_SCORES_SCORES_H_
#define FOLIO_KERNELS_CUDA_SCORES_SCORES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/types.h"
#include "kernels/views.h"

namespace folio::kernels::cuda {

// Writes kKeyDifference. An item without tokens is padding.
absl::Status ScoreResident(Stream stream, DeviceArray<ResidentItem> runs, const DevicePool& pool);

// Writes kUnrotatedDifference. `rope` lies on the device and has all positions of the items.
absl::Status ScoreUnrotated(Stream stream, DeviceArray<UnrotatedItem> runs, const RopeTable& rope,
                            const DevicePool& pool);

// Upper limits over the items of a call. The host has to know them, because the items themselves
// are on the device.
struct WindowLimits {
  uint32_t context = 0;  // resident tokens
  uint32_t queries = 0;  // rows
};

// Bytes of scratch memory on the device that a call of ScoreWindow needs.
size_t WindowScratchBytes(uint32_t runs, const WindowLimits& limits, const AttentionShape& shape);

// Writes kWindowAttention. q is [rows, heads * head_dim] of the pages' type, as RopeAppendScore
// left it, with an even stride, and `scratch` is aligned to 16 bytes. An item without rows is
// padding, and an item that exceeds the limits is skipped.
absl::Status ScoreWindow(Stream stream, ConstTensor q, DeviceArray<WindowItem> runs,
                         const WindowLimits& limits, const AttentionShape& shape,
                         const DevicePool& pool, void* scratch);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_SCORES_SCORES_H_
