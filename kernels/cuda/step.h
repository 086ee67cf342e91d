// What is around the layers of a step, so that the host need not know what the device has sampled,
// nor send whole tables: tables of pages that stay on the device, rows laid out from them, tokens
// that are fed to the next step, and the count of steps. How to call and what is returned:
// kernels/cuda/ops.h.
#ifndef FOLIO_KERNELS_CUDA_STEP_H_
#define FOLIO_KERNELS_CUDA_STEP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/sampling.h"
#include "kernels/cuda/types.h"
#include "kernels/views.h"

namespace folio::kernels::cuda {

// to[i] = from[i]. Writes of one call do not overlap.
struct TableWrite {
  uint32_t* to = nullptr;
  const uint32_t* from = nullptr;
  uint32_t count = 0;
};
absl::Status WriteTables(Stream stream, DeviceArray<TableWrite> writes);

// One sequence's rows of a step, in one layer.
struct LaidRun {
  const uint32_t* table = nullptr;  // the layer's pages
  int32_t* pages = nullptr;         // gets those in use, the rows' own included
  AppendSlot* slots = nullptr;      // [rows], get the rows' places
  uint32_t resident = 0;            // tokens before the step
  uint32_t rows = 0;
  uint32_t first_position = 0;
  ScoreKind score = ScoreKind::kNone;
  bool padding = false;  // of a captured batch: the rows' places are kNoPage
};
absl::Status LayRuns(Stream stream, DeviceArray<LaidRun> runs, uint32_t page_tokens);

// In an id to feed: not a token, but the place of a sequence whose last token the device has kept.
inline constexpr uint32_t kKeptToken = 0x80000000;

// out[i] = ids[i], or kept[ids[i] - kKeptToken].
absl::Status FeedTokens(Stream stream, DeviceArray<uint32_t> ids, const uint32_t* kept,
                        uint32_t* out);
// kept[places[i]] = sampled[i].token, but where the place is kNotKept. No other comes twice.
inline constexpr uint32_t kNotKept = 0xffffffff;
absl::Status KeepTokens(Stream stream, const SampledToken* sampled, DeviceArray<uint32_t> places,
                        uint32_t* kept);

// out[i] = from[rows[i]], float32.
absl::Status GatherRows(Stream stream, ConstTensor from, DeviceArray<uint32_t> rows, Tensor out);

// *counter = step, when all that was enqueued before is done. The counter may be the host's memory.
absl::Status CountStep(Stream stream, uint64_t* counter, uint64_t step);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_STEP_H_
