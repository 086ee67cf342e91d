#include "kernels/cuda/attention/choice.h"

#include <algorithm>

namespace folio::kernels::cuda::attention {
namespace {

constexpr int64_t TilesOf(int64_t rows) { return (rows + kHopperTile - 1) / kHopperTile; }

// The tiles of one query head.
int64_t Tiles(const AttentionWork& work) {
  int64_t tiles = 0;
  for (size_t i = 0; i < work.contexts.size(); ++i) {
    tiles += TilesOf(work.row_starts[i + 1] - work.row_starts[i]);
  }
  return tiles;
}

// The tokens that the tiles of one run of one head walk past. A tile ends at its own last row.
double WalkedTokens(int64_t rows, int64_t context) {
  const int64_t tiles = TilesOf(rows);
  const int64_t before = context - rows;
  const int64_t full = tiles - 1;  // all but the last
  const int64_t own = kHopperTile * full * (full + 1) / 2;
  return static_cast<double>(full * before + own + context);
}

}  // namespace

bool HopperPlanFits(const AttentionWork& work, const AttentionShape& shape, uint32_t processors,
                    size_t plan_bytes) {
  // PrefillSM90Plan gives all heads one schedule when its bound of the tiles is larger.
  constexpr int64_t kMostTilesPerHead = 4096;
  constexpr size_t kArrays = 7, kAlignment = 16;
  const auto runs = static_cast<int64_t>(work.contexts.size());
  if (TilesOf(work.row_starts.back()) + runs - 1 > kMostTilesPerHead) return false;
  const size_t items = static_cast<size_t>(Tiles(work)) * shape.heads;
  const size_t bytes = kArrays * (items * sizeof(int32_t) + kAlignment) +
                       (processors + 1) * sizeof(int32_t) + kAlignment;
  return bytes <= plan_bytes;
}

// A unit of time is what a block of the Hopper kernels takes for one token of the context, some
// 0.0142 us. Starting and ending a tile takes either kernel as long as some 256 tokens, and a tile
// of the FA2 kernels, which is of 128 rows times heads of a group, takes 1.8 times as long for a
// token. These kernels split contexts, so that the GPU is always full. The Hopper kernels do not:
// with few rows behind a long context, most of the GPU waits for the longest tile. They also take
// whole tiles for runs of few rows.
//
// On an H200 (132 multiprocessors, 32 query heads, 8 KV heads, bf16), in us:
//
//   rows x runs, context before    head_dim 128     head_dim 64      FA2 / Hopper    estimated
//                                  FA2   Hopper     FA2   Hopper
//   8192                           1701     979     1134     688     1.74, 1.65      1.68
//   1024 x 8                        261     192      182     131     1.36, 1.39      1.37
//   2048 behind 6144                766     437      509     314     1.75, 1.62      1.70
//   256 x 32                        107     104       80      70     1.03, 1.14      1.05
//   128 x 64                         85      92       64      63     0.92, 1.02      0.94
//   1024                             62      42       44      32     1.48, 1.38      1.37
//   512 behind 7680                 254     130      207      93     1.95, 2.23      1.67
//   256 behind 7936                 134     128      109      99     1.05, 1.10      0.85
//   128 behind 8064                  76     128       62     100     0.59, 0.62      0.43
//
// The time in which the FA2 kernels merge split contexts is left out, because it depends on more.
// So they are chosen a little too often where the two are nearly equal.
bool HopperIsFaster(const AttentionWork& work, const AttentionShape& shape, uint32_t processors) {
  constexpr double kTileStart = 256;
  constexpr double kFa2Token = 1.8;
  double walked = 0, longest = 0, fa2 = 0;
  for (size_t i = 0; i < work.contexts.size(); ++i) {
    const int64_t rows = work.row_starts[i + 1] - work.row_starts[i];
    const int64_t context = work.contexts[i];
    const auto tiles = static_cast<double>(TilesOf(rows));
    walked += WalkedTokens(rows, context) + tiles * kTileStart;
    longest = std::max(longest, static_cast<double>(context) + kTileStart);
    const double mean = static_cast<double>(context) - static_cast<double>(rows) / 2;
    fa2 += static_cast<double>(rows) / kHopperTile * (kFa2Token * mean + kTileStart);
  }
  const int64_t tiles = Tiles(work);
  const int64_t rounds = (tiles * shape.heads + processors - 1) / processors;
  const double mean_tile = walked / static_cast<double>(tiles);
  const double hopper = std::max(longest, mean_tile * static_cast<double>(rounds));
  return hopper < fa2 * shape.heads / processors;
}

}  // namespace folio::kernels::cuda::attention
