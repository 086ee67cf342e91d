// This file holds attention over packed tiles with AMX, whose registers take panels of keys and
// values as they are. It is included after attention.inl.h and amx_tiles.inl.h, inside the
// anonymous namespace of a file that is compiled for AMX.
//
// One row alone is served here as well as many, because other instructions round otherwise. A row's
// sums do not depend on the rows beside it. If these see more keys, the row adds steps of zeros,
// which leave its sums as they are. A step would clear denormal sums, but the step that every row
// takes after ShrinkSums has cleared them already.

// The working set of a group of rows within one tile. It stays in the first-level cache.
struct MatrixGroup {
  alignas(kAlign) float score[kTileRows][kKeyTile];
  alignas(kAlign) bf16 share[kTileRows][kKeyTile];
  alignas(kAlign) float peak[kTileRows];
  alignas(kAlign) float shrink[kTileRows];
};

// Registers 0 to 3 are sums of `rows` rows, 4 is these rows, and 5 to 7 are columns of panels.
inline void ConfigureRows(uint32_t rows) {
  TileConfig config;
  for (const int tile : {0, 1, 2, 3, 4}) config.Shape(tile, rows);
  for (const int tile : {5, 6, 7}) config.Shape(tile, kTileRows);
  LoadTileConfig(config);
}

// The operands of one product, whose depth is `steps` times kTileDepth.
struct MatrixProduct {
  const bf16* rows;
  size_t stride;
  const uint32_t* panel;
  size_t panel_stride;  // to the panel beside it
  uint32_t steps;
  float* out;
  size_t out_stride;
};

// out (+)= rows times one panel, or two that lie beside each other.
template <bool kTwo, bool kAdd>
[[gnu::always_inline]] inline void Multiply(const MatrixProduct& p) {
  constexpr size_t kPanelBytes = 2 * kTileRowBytes;
  const size_t stride = p.stride * sizeof(bf16);
  const size_t out_stride = p.out_stride * sizeof(float);
  float* beside = p.out + 2 * kTileRows;
  if constexpr (kAdd) {
    LoadSums<kTwo>(p.out, beside, out_stride);
  } else {
    ZeroSums<kTwo>();
  }
  const bf16* rows = p.rows;
  const uint32_t* panel = p.panel;
  for (uint32_t step = p.steps; step != 0; --step) {
    _tile_loadd(4, rows, stride);
    _tile_loadd(5, panel, kPanelBytes);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(6, panel + 16, kPanelBytes);
    _tile_dpbf16ps(1, 4, 6);
    if constexpr (kTwo) {
      _tile_loadd(7, panel + p.panel_stride, kPanelBytes);
      _tile_dpbf16ps(2, 4, 7);
      _tile_loadd(5, panel + p.panel_stride + 16, kPanelBytes);
      _tile_dpbf16ps(3, 4, 5);
    }
    rows += kTileDepth;
    panel += kTileDepth / 2 * 32;
  }
  StoreSums<kTwo>(p.out, beside, out_stride);
}

// The maximum by lane of a row's scores. A width known to the compiler unrolls.
template <class V>
[[gnu::always_inline]] inline typename V::F PeakOfRow(const float* score, uint32_t width) {
  typename V::F peak = V::Load(score);
  for (uint32_t c = V::kLanes; c < width; c += V::kLanes) peak = V::Max(peak, V::Load(score + c));
  return peak;
}

// Moves the rows' maxima on, given the scores' maxima by lane.
template <class V>
[[gnu::always_inline]] inline void MoveMatrixPeaks(const FlashTile& t, uint32_t row, uint32_t rows,
                                                   const typename V::F (&lane_peak)[kTileRows],
                                                   MatrixGroup& g) {
  using F = typename V::F;
  const int count = static_cast<int>(rows);
  const F old_peak = V::LoadFirst(t.max + row, count);
  const F peak = V::Max(V::Mul(V::MaxOfRows(lane_peak), V::Set(t.scale)), old_peak);
  V::StoreFirst(t.max + row, count, peak);
  V::Store(g.peak, peak);
  V::Store(g.shrink, SoftmaxExp2<V>(V::Sub(old_peak, peak)));
}

// The scores of the rows with the first one or two panels of keys.
[[gnu::always_inline]] inline void ScoreRows(const FlashTile& t, uint32_t row, uint32_t panels,
                                             MatrixGroup& g) {
  const MatrixProduct scores{
      t.q + row * t.q_stride,  t.q_stride,     t.keys,  size_t{t.head_dim} / 2 * (kKeyTile / 2),
      t.head_dim / kTileDepth, &g.score[0][0], kKeyTile};
  panels == 2 ? Multiply<true, false>(scores) : Multiply<false, false>(scores);
}

// Masks the scores, and moves the rows' maxima on.
template <class V>
[[gnu::always_inline]] inline void PeaksOfRows(const FlashTile& t, uint32_t row, uint32_t rows,
                                               uint32_t width, bool masked, MatrixGroup& g) {
  typename V::F lane_peak[kTileRows];
  for (uint32_t r = rows; r < kTileRows; ++r) lane_peak[r] = V::Set(-__builtin_inff());
  if (masked) {
    for (uint32_t r = 0; r < rows; ++r) lane_peak[r] = MaskRow<V>(t, row + r, width, g.score[r]);
  } else {
    for (uint32_t r = 0; r < rows; ++r) lane_peak[r] = PeakOfRow<V>(g.score[r], width);
  }
  MoveMatrixPeaks<V>(t, row, rows, lane_peak, g);
}

// Scores to probabilities, and the rows' maxima and sums moved on.
template <class V>
[[gnu::always_inline]] inline void SoftmaxRows(const FlashTile& t, uint32_t row, uint32_t rows,
                                               uint32_t width, bool masked, MatrixGroup& g) {
  PeaksOfRows<V>(t, row, rows, width, masked, g);
  for (uint32_t r = 0; r < rows; ++r) {
    ShareRow<V>(g.score[r], t.scale, g.peak[r], g.shrink[r], width,
                t.sum + size_t{row + r} * V::kLanes, g.share[r]);
  }
}

// Multiplies the sums of rows whose maximum has moved.
template <class V>
void ShrinkSums(uint32_t rows, uint32_t columns, const float* shrink, float* acc) {
  uint32_t moved = V::NotOne(V::LoadFirst(shrink, static_cast<int>(rows)));
  moved &= (1U << rows) - 1;
  for (; moved != 0; moved &= moved - 1) {
    const auto r = static_cast<uint32_t>(__builtin_ctz(moved));
    const typename V::F by = V::Set(shrink[r]);
    float* sums = acc + size_t{r} * columns;
    for (uint32_t c = 0; c < columns; c += V::kLanes) {
      V::Store(sums + c, V::Mul(V::Load(sums + c), by));
    }
  }
}

// The group of rows that starts at `row`: 16, or `rest` of them.
template <class V, bool kWhole>
void FlashRows(const FlashTile& t, uint32_t row, uint32_t rest, MatrixGroup& g) {
  const uint32_t rows = kWhole ? kTileRows : rest;
  constexpr uint32_t kColumns = 2 * V::kLanes;
  bool masked = false;
  const uint32_t seen = SeenKeys(t, row, rows, &masked);
  if (seen == 0) return;
  const uint32_t panels = (seen + kColumns - 1) / kColumns;
  StoredForTiles();
  if (row == 0) FetchNext(t, 0, kKeyTile / 2);
  ScoreRows(t, row, panels, g);
  if (panels == 2) {
    SoftmaxRows<V>(t, row, rows, kKeyTile, masked, g);
  } else {
    SoftmaxRows<V>(t, row, rows, kColumns, masked, g);
  }
  float* acc = t.acc + size_t{row} * t.head_dim;
  ShrinkSums<V>(rows, t.head_dim, g.shrink, acc);
  StoredForTiles();
  if (row == 0) FetchNext(t, kKeyTile / 2, kKeyTile / 2);
  MatrixProduct sums{&g.share[0][0], kKeyTile, t.values,  kKeyTile / 2 * kColumns,
                     panels,         acc,      t.head_dim};
  uint32_t column = 0;
  for (; column + 2 * kColumns <= t.head_dim; column += 2 * kColumns) {
    Multiply<true, true>(sums);
    sums.panel += 2 * sums.panel_stride;
    sums.out += 2 * kColumns;
  }
  if (column < t.head_dim) Multiply<false, true>(sums);
}

// Calls f(kWhole, row, rows, group) for each group of at most 16 rows, with the registers shaped
// for it. kWhole is a constant, and says that there are 16.
template <class F>
[[gnu::always_inline]] inline void ForMatrixGroups(uint32_t rows, const F& f) {
  MatrixGroup g;
  uint32_t row = 0;
  if (rows >= kTileRows) {
    ConfigureRows(kTileRows);
    for (; rows - row >= kTileRows; row += kTileRows) f(std::true_type(), row, kTileRows, g);
  }
  if (const uint32_t rest = rows - row; rest > 0) {
    ConfigureRows(rest);
    f(std::false_type(), row, rest, g);
  }
  _tile_release();
}

template <class V>
void MatrixFlashKernel(const FlashTile& t) {
  static_assert(V::kLanes == 16 && kKeyTile == 64);
  if (t.head_dim % kTileDepth != 0) return Avx512Bf16Kernels().flash(t);
  ForMatrixGroups(t.rows, [&](auto whole, uint32_t row, uint32_t rows, MatrixGroup& g) {
    FlashRows<V, whole>(t, row, rows, g);
  });
}
