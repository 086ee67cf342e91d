// Scores of resident tokens, on demand: twins of CpuOps::ScoreResident, ScoreUnrotated and
// ScoreWindow, which say what each is. How to call and what is returned: kernels/cuda/ops.h.
//
// The runs of one call may be of different sequences and, but for windows, of different layers: a
// call for all layers at once keeps the whole GPU busy where one layer's heads do not. Runs, tables
// and positions lie on the device. Where the pool has no score board nothing is done. head_dim is
// even and at most 128.
#ifndef FOLIO_KERNELS_CUDA_SCORES_H_
#define FOLIO_KERNELS_CUDA_SCORES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/types.h"
#include "kernels/views.h"

namespace folio::kernels::cuda {

// kKeyDifference. A run of no tokens is padding.
absl::Status ScoreResident(Stream stream, DeviceArray<ResidentRun> runs, const DevicePool& pool);

// kUnrotatedDifference. `rope` lies on the device and has all of the runs' positions.
absl::Status ScoreUnrotated(Stream stream, DeviceArray<UnrotatedRun> runs, const RopeTable& rope,
                            const DevicePool& pool);

// What no run of a call exceeds; the host knows it, the runs themselves are on the device.
struct WindowLimits {
  uint32_t context = 0;  // resident tokens
  uint32_t queries = 0;  // rows
};

// Scratch memory that a call of ScoreWindow wants, on the device.
size_t WindowScratchBytes(uint32_t runs, const WindowLimits& limits, const AttentionShape& shape);

// kWindowAttention. q [rows, heads * head_dim] of the pages' type, as RopeAppendScore left it, with
// an even stride; `scratch` aligned to 16 bytes. A run of no rows is padding; one that exceeds the
// limits is left out.
absl::Status ScoreWindow(Stream stream, ConstTensor q, DeviceArray<WindowRun> runs,
                         const WindowLimits& limits, const AttentionShape& shape,
                         const DevicePool& pool, void* scratch);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_SCORES_H_
