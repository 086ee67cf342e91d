// This header has the work around the layers of a step. Tables of pages stay on the device, the
// places of rows are computed from them, sampled tokens are fed to the next step, and steps are
// counted. The host therefore neither waits for sampled tokens nor sends whole tables. Calls and
// errors are as in kernels/cuda/ops/ops.h.
#ifndef FOLIO_KERNELS_CUDA_OPS_STEP_H_
#define FOLIO_KERNELS_CUDA_OPS_STEP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/ops/sampling.h"
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
struct PlacedItem {
  const uint32_t* table = nullptr;  // the layer's pages
  int32_t* pages = nullptr;         // gets those in use, the rows' own included
  AppendSlot* slots = nullptr;      // [rows], get the rows' places
  uint32_t resident = 0;            // tokens before the step
  uint32_t rows = 0;
  uint32_t first_position = 0;
  ScoreKind score = ScoreKind::kNone;
  bool padding = false;  // of a captured batch: the rows' places are kNoPage
};
absl::Status PlaceItems(Stream stream, DeviceArray<PlacedItem> runs, uint32_t page_tokens);

// An id with this bit is the place of a sequence whose last token the device has kept.
inline constexpr uint32_t kKeptToken = 0x80000000;

// out[i] = ids[i], or kept[ids[i] - kKeptToken] for an id with that bit.
absl::Status FeedTokens(Stream stream, DeviceArray<uint32_t> ids, const uint32_t* kept,
                        uint32_t* out);
// kept[places[i]] = sampled[i].token, unless the place is kNotKept. Other places are all different.
inline constexpr uint32_t kNotKept = 0xffffffff;
absl::Status KeepTokens(Stream stream, const SampledToken* sampled, DeviceArray<uint32_t> places,
                        uint32_t* kept);

// out[i] = from[rows[i]], float32.
absl::Status GatherRows(Stream stream, ConstTensor from, DeviceArray<uint32_t> rows, Tensor out);

// *counter = step, when all earlier work of the stream is done. The counter may be host memory.
absl::Status CountStep(Stream stream, uint64_t* counter, uint64_t step);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_OPS_STEP_H_
