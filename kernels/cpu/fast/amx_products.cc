#include "kernels/cpu/fast/amx_products.h"

#include <immintrin.h>

#include "kernels/cpu/fast/div_up.h"

namespace folio::kernels::cpu::fast {
namespace {

#include "kernels/cpu/fast/amx_tiles.inl.h"

static_assert(kRowPair == 2 * kTileRows && kStepK == kTileDepth);
constexpr size_t kTile = size_t{kTileRows} * kTileDepth;  // bf16 values of a tile
constexpr size_t kPanelWords = 32;                        // of a pair of neighbours along k

// The rows' share of so many steps along k stays in the first-level cache while all panels pass.
constexpr uint32_t kStepsTogether = 8;

// Fetches so many cache lines of a stream into the second-level cache with each step.
struct Stream {
  const char* at;
  uint32_t lines;

  void Fetch() {
    for (uint32_t i = 0; i < lines; ++i) _mm_prefetch(at + size_t{64} * i, _MM_HINT_T1);
    at += size_t{64} * lines;
  }
};

template <bool kOneTile>
inline void AddSteps(const bf16* rows, const uint32_t* panel, uint32_t steps, Stream& next,
                     Stream later) {
  for (uint32_t step = 0; step < steps; ++step) {
    _tile_loadd(4, rows, kTileRowBytes);
    _tile_loadd(6, panel, kPanelWords * sizeof(uint32_t));
    if constexpr (!kOneTile) _tile_loadd(5, rows + kTile, kTileRowBytes);
    _tile_loadd(7, panel + kTileRows, kPanelWords * sizeof(uint32_t));
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (!kOneTile) _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (!kOneTile) _tile_dpbf16ps(3, 5, 7);
    next.Fetch();
    later.Fetch();
    rows += 2 * kTile;
    panel += kTileDepth / 2 * kPanelWords;
  }
}

template <bool kOneTile>
void Multiply(const TileProduct& p) {
  const uint32_t steps = p.k / kTileDepth;
  const size_t out_stride = p.out_stride * sizeof(float);
  const uint32_t together = DivUp(steps, DivUp(steps, kStepsTogether));  // in equal parts
  // The next rows come meanwhile, in equal parts.
  Stream next = {reinterpret_cast<const char*>(p.next_rows),
                 p.next_rows == nullptr ? 0 : DivUp(kRowPair, p.num_panels)};
  for (uint32_t first = 0; first < steps; first += together) {
    const uint32_t count = steps - first < together ? steps - first : together;
    for (uint32_t panel = 0; panel < p.num_panels; ++panel) {
      float* out = p.out + size_t{panel} * kPanelWords;
      float* below = out + kTileRows * p.out_stride;
      if (first > 0 || p.accumulate) {
        LoadSums<!kOneTile>(out, below, out_stride);
      } else {
        ZeroSums<!kOneTile>();
      }
      const size_t at = panel * p.panel_stride;
      Stream later = {nullptr, p.later_lines};
      if (p.later_lines > 0) {
        later.at =
            reinterpret_cast<const char*>(p.later_panels + at) + size_t{64} * p.later_lines * first;
      }
      AddSteps<kOneTile>(p.rows + 2 * kTile * first,
                         p.panels + at + size_t{first} * (kTileDepth / 2) * kPanelWords, count,
                         next, later);
      StoreSums<!kOneTile>(out, below, out_stride);
    }
  }
}

}  // namespace

void PackRowPair(const bf16* in, size_t stride, uint32_t rows, uint32_t k, bf16* out) {
  for (uint32_t at = 0; at < k; at += kTileDepth) {
    for (uint32_t r = 0; r < kRowPair; ++r, out += kTileDepth) {
      const __m512i part =
          r < rows ? _mm512_loadu_si512(in + r * stride + at) : _mm512_setzero_si512();
      _mm512_store_si512(out, part);
    }
  }
}

void MultiplyTiles(const TileProduct& product) {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.Shape(tile, kTileRows);
  LoadTileConfig(config);
  product.one_tile ? Multiply<true>(product) : Multiply<false>(product);
  _tile_release();
}

}  // namespace folio::kernels::cpu::fast
