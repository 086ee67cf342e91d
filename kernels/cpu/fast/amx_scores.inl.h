// This file holds window attention with AMX (see score_kernels.h). It is included after
// scores.inl.h and amx_attention.inl.h, inside the anonymous namespace of a file that is compiled
// for AMX.

template <class V>
[[gnu::always_inline]] inline void KeepMatrixRows(const WindowTile& w, uint32_t row, uint32_t rows,
                                                  MatrixGroup& g) {
  const FlashTile& t = w.queries;
  constexpr uint32_t kColumns = 2 * V::kLanes;
  bool masked = false;
  // If the rows see none of the keys, all their scores are masked.
  const uint32_t panels = SeenKeys(t, row, rows, &masked) > kColumns ? 2 : 1;
  StoredForTiles();
  ScoreRows(t, row, panels, g);
  PeaksOfRows<V>(t, row, rows, panels * kColumns, masked, g);
  for (uint32_t r = 0; r < rows; ++r) {
    KeepRow<V>(g.score[r], t.scale, g.peak[r], g.shrink[r], panels * kColumns,
               t.sum + size_t{row + r} * V::kLanes, w.kept + size_t{row + r} * kKeyTile);
    w.peaks[row + r] = g.peak[r];
  }
}

template <class V>
void MatrixKeepSharesKernel(const WindowTile& w) {
  static_assert(V::kLanes == 16 && kKeyTile == 64);
  if (w.queries.head_dim % kTileDepth != 0) return Avx512Bf16Kernels().keep_shares(w);
  ForMatrixGroups(w.queries.rows, [&](auto whole, uint32_t row, uint32_t rows, MatrixGroup& g) {
    KeepMatrixRows<V>(w, row, whole ? kTileRows : rows, g);
  });
}
