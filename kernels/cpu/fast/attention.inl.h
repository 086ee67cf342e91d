// This file holds attention over packed tiles of keys and values (see kernels.h), for any vector
// type V. It is included after gemm.inl.h, inside the anonymous namespace of a file that is
// compiled for one instruction set.

// 2^x with an error of 3e-6, which suffices because results are rounded to bf16. It is exactly 1 at
// 0 and 0 at -infinity, so that a tile that a row does not see changes nothing.
template <class V>
typename V::F SoftmaxExp2(typename V::F x) {
  const typename V::F f = V::FloorFraction(x);
  typename V::F p = V::Fma(f, V::Set(1.3426692225e-2f), V::Set(5.2242461592e-2f));
  p = V::Fma(f, p, V::Set(2.4128021300e-1f));
  p = V::Fma(f, p, V::Set(6.9304484129e-1f));
  p = V::Fma(f, p, V::Set(1.0f));
  return V::ScaleByFloor(p, x);
}

// Asks for rows [first, first + count) of the next tile.
template <class Tile>
void FetchNext(const Tile& t, uint32_t first, uint32_t count) {
  if (t.next == nullptr) return;
  for (uint32_t i = first; i < first + count; ++i) {
    for (uint32_t at = 0; at < t.head_dim; at += 32) __builtin_prefetch(t.next[i] + at, 0, 2);
  }
}

template <class V>
void PackKeysKernel(const PackTile& t) {
  constexpr uint32_t kLanes = V::kLanes;
  const uint32_t pairs = t.head_dim / 2;
  for (uint32_t panel = 0; panel < kKeyTile / (2 * kLanes); ++panel) {
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t* words[kLanes];
      FetchNext(t, (2 * panel + half) * kLanes, kLanes);
      for (uint32_t i = 0; i < kLanes; ++i) {
        words[i] = reinterpret_cast<const uint32_t*>(t.rows[(2 * panel + half) * kLanes + i]);
      }
      uint32_t* to = t.out + size_t{panel} * pairs * 2 * kLanes + half * kLanes;
      uint32_t at = 0;
      for (; at + kLanes <= pairs; at += kLanes) {
        V::Transpose(words, at, to + size_t{at} * 2 * kLanes, 2 * kLanes);
      }
      for (; at < pairs; ++at) {
        for (uint32_t i = 0; i < kLanes; ++i) {
          __builtin_memcpy(to + size_t{at} * 2 * kLanes + i, words[i] + at, sizeof(uint32_t));
        }
      }
    }
  }
}

template <class V>
void PackValuesKernel(const PackTile& t) {
  constexpr uint32_t kColumns = 2 * V::kLanes;
  for (uint32_t key = 0; key < kKeyTile; key += 2) {
    const bf16* even = t.rows[key];
    const bf16* odd = t.rows[key + 1];
    uint32_t* to = t.out + size_t{key / 2} * kColumns;
    uint32_t at = 0;
    for (; at + kColumns <= t.head_dim; at += kColumns, to += kKeyTile / 2 * kColumns) {
      V::Interleave(even + at, odd + at, to);
    }
    if (at == t.head_dim) continue;
    for (uint32_t i = 0; i < kColumns; ++i) {
      const bool inside = at + i < t.head_dim;
      to[i] = inside ? even[at + i].bits | uint32_t{odd[at + i].bits} << 16 : 0;
    }
  }
}

// The working set of a group of R rows within one tile. It stays in the first-level cache.
template <class V, int R>
struct GroupTile {
  static constexpr int kPadded = (R + V::kLanes - 1) / V::kLanes * V::kLanes;
  alignas(kAlign) float score[R][kKeyTile];
  alignas(kAlign) bf16 share[R][kKeyTile];  // probabilities before normalisation
  alignas(kAlign) float peak[kPadded];      // new maximum of each row, in units of the exponent
  alignas(kAlign) float shrink[kPadded];    // factor for the row's earlier sums
};

// Scores of the first `panels` panels. Returns in lane_peak each row's maximum by lane.
template <class V, int R>
[[gnu::always_inline]] inline void Scores(const FlashTile& t, uint32_t row, uint32_t panels,
                                          GroupTile<V, R>& g, typename V::F (&lane_peak)[R]) {
  constexpr uint32_t kLanes = V::kLanes;
  for (int r = 0; r < R; ++r) lane_peak[r] = V::Set(-__builtin_inff());
  for (uint32_t panel = 0; panel < panels; ++panel) {
    if (row == 0) FetchNext(t, panel * (kKeyTile / 2) / panels, kKeyTile / 2 / panels);
    typename V::F acc[R][2];
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = V::Zero();
    Accumulate<V, R>(t.q + row * t.q_stride, t.q_stride,
                     t.keys + size_t{panel} * t.head_dim * kLanes, t.head_dim, acc);
    for (int r = 0; r < R; ++r) {
      V::Store(&g.score[r][panel * 2 * kLanes], acc[r][0]);
      V::Store(&g.score[r][panel * 2 * kLanes + kLanes], acc[r][1]);
      lane_peak[r] = V::Max(lane_peak[r], V::Max(acc[r][0], acc[r][1]));
    }
  }
}

// Takes the scores of slots that a row does not see out of it. Returns its maximum by lane.
template <class V>
[[gnu::always_inline]] inline typename V::F MaskRow(const FlashTile& t, uint32_t row,
                                                    uint32_t width, float* score) {
  constexpr int32_t kLanes = V::kLanes;
  const typename V::F nothing = V::Set(-__builtin_inff());
  typename V::F peak = nothing;
  for (uint32_t c = 0; c < width; c += kLanes) {
    typename V::F s = V::Load(score + c);
    const int32_t left = t.valid[row] - static_cast<int32_t>(c);
    if (left < kLanes) s = V::KeepFirst(s, left < 0 ? 0 : left, nothing);
    const int32_t skip = t.skip != nullptr ? t.skip[row] - static_cast<int32_t>(c) : 0;
    if (skip > 0) s = V::KeepFirst(nothing, skip < kLanes ? skip : kLanes, s);
    V::Store(score + c, s);
    peak = V::Max(peak, s);
  }
  return peak;
}

template <class V, int R>
void MaskScores(const FlashTile& t, uint32_t row, uint32_t width, GroupTile<V, R>& g,
                typename V::F (&lane_peak)[R]) {
  for (int r = 0; r < R; ++r) lane_peak[r] = MaskRow<V>(t, row + r, width, g.score[r]);
}

// Moves the rows' maxima on.
template <class V, int R>
[[gnu::always_inline]] inline void MovePeaks(const FlashTile& t, uint32_t row, GroupTile<V, R>& g,
                                             const typename V::F (&lane_peak)[R]) {
  constexpr int kLanes = V::kLanes;
  V::Store(g.shrink + GroupTile<V, R>::kPadded - kLanes, V::Zero());
  for (int r = 0; r < R; ++r) {
    const float old_peak = t.max[row + r];
    const float tile_peak = V::ReduceMax(lane_peak[r]) * t.scale;
    g.peak[r] = tile_peak > old_peak ? tile_peak : old_peak;
    g.shrink[r] = old_peak - g.peak[r];
    t.max[row + r] = g.peak[r];
  }
  for (int r = 0; r < R; r += kLanes) {
    V::Store(g.shrink + r, SoftmaxExp2<V>(V::Load(g.shrink + r)));
  }
}

// A row's scores to probabilities, and its sums moved on. A width known to the compiler unrolls.
template <class V>
[[gnu::always_inline]] inline void ShareRow(const float* score, float scale, float peak,
                                            float shrink, uint32_t width, float* sum, bf16* share) {
  using F = typename V::F;
  constexpr uint32_t kLanes = V::kLanes;
  const F by = V::Set(scale);
  const F minus_peak = V::Set(-peak);
  F total = V::Mul(V::Load(sum), V::Set(shrink));
#pragma GCC unroll 16
  for (uint32_t c = 0; c < width; c += 2 * kLanes) {
    const F low = SoftmaxExp2<V>(V::Fma(V::Load(score + c), by, minus_peak));
    const F high = SoftmaxExp2<V>(V::Fma(V::Load(score + c + kLanes), by, minus_peak));
    total = V::Add(total, V::Add(low, high));
    V::StoreBf16Two(share + c, low, high);
  }
  V::Store(sum, total);
}

template <class V, int R>
[[gnu::always_inline]] inline void Shares(const FlashTile& t, uint32_t row, uint32_t width,
                                          GroupTile<V, R>& g) {
  for (int r = 0; r < R; ++r) {
    ShareRow<V>(g.score[r], t.scale, g.peak[r], g.shrink[r], width, t.sum + (row + r) * V::kLanes,
                g.share[r]);
  }
}

// Number of keys of a tile that any of some rows sees. `masked` tells whether some row sees fewer.
[[gnu::always_inline]] inline uint32_t SeenKeys(const FlashTile& t, uint32_t row, uint32_t rows,
                                                bool* masked) {
  int32_t most = 0;
  int32_t least = kKeyTile;
  for (uint32_t r = 0; r < rows; ++r) {
    const int32_t valid = t.valid[row + r];
    most = valid > most ? valid : most;
    least = valid < least ? valid : least;
  }
  *masked = least < static_cast<int32_t>(kKeyTile);
  if (t.skip != nullptr) [[unlikely]] {
    int32_t fewest = kKeyTile;
    for (uint32_t r = 0; r < rows; ++r) {
      const int32_t skip = t.skip[row + r];
      fewest = skip < fewest ? skip : fewest;
      *masked = *masked || skip > 0;
    }
    if (fewest == static_cast<int32_t>(kKeyTile)) return 0;
  }
  return most < static_cast<int32_t>(kKeyTile) ? most : kKeyTile;
}

template <class V, int R>
void FlashGroup(const FlashTile& t, uint32_t row) {
  using F = typename V::F;
  constexpr uint32_t kLanes = V::kLanes;
  bool masked = false;
  const uint32_t seen = SeenKeys(t, row, R, &masked);
  if (seen == 0) return;
  const uint32_t panels = (seen + 2 * kLanes - 1) / (2 * kLanes);

  GroupTile<V, R> g;
  F lane_peak[R];
  Scores<V, R>(t, row, panels, g, lane_peak);
  if (masked) [[unlikely]] {
    MaskScores<V, R>(t, row, panels * 2 * kLanes, g, lane_peak);
  }
  MovePeaks<V, R>(t, row, g, lane_peak);
  if (seen == kKeyTile) {
    Shares<V, R>(t, row, kKeyTile, g);
  } else {
    Shares<V, R>(t, row, panels * 2 * kLanes, g);
  }

  const uint32_t acc_stride = AccStride(t.head_dim, kLanes);
  const uint32_t columns = acc_stride / (2 * kLanes);
  const uint32_t k = (seen + 1) / 2 * 2;
  for (uint32_t column = 0; column < columns; ++column) {
    if (row == 0) {
      FetchNext(t, (kKeyTile + column * kKeyTile / columns) / 2, kKeyTile / 2 / columns);
    }
    F acc[R][2];
    float* to = t.acc + size_t{row} * acc_stride + column * 2 * kLanes;
    for (int r = 0; r < R; ++r) {
      const F s = V::Set(g.shrink[r]);
      acc[r][0] = V::Mul(V::Load(to + r * acc_stride), s);
      acc[r][1] = V::Mul(V::Load(to + r * acc_stride + kLanes), s);
    }
    Accumulate<V, R>(&g.share[0][0], kKeyTile, t.values + size_t{column} * kLanes * kKeyTile, k,
                     acc);
    for (int r = 0; r < R; ++r) {
      V::Store(to + r * acc_stride, acc[r][0]);
      V::Store(to + r * acc_stride + kLanes, acc[r][1]);
    }
  }
}

template <class V, int R>
void AnyFlashGroup(uint32_t rows, const FlashTile& t, uint32_t row) {
  if (rows == R) {
    FlashGroup<V, R>(t, row);
  } else if constexpr (R > 1) {
    AnyFlashGroup<V, R - 1>(rows, t, row);
  }
}

// body(rows, first) for groups of nearly equal size.
template <class V, class Body>
void ForRowGroups(uint32_t rows, Body body) {
  const uint32_t groups = (rows + V::kGroupRows - 1) / V::kGroupRows;
  uint32_t row = 0;
  for (uint32_t g = 0; g < groups; ++g) {
    const uint32_t count = (rows - row) / (groups - g);
    body(count, row);
    row += count;
  }
}

template <class V>
void FlashKernel(const FlashTile& t) {
  ForRowGroups<V>(
      t.rows, [&](uint32_t rows, uint32_t row) { AnyFlashGroup<V, V::kGroupRows>(rows, t, row); });
}

template <class V>
void MergeKernel(const FlashMerge& m) {
  using F = typename V::F;
  constexpr uint32_t kLanes = V::kLanes;
  float peak = m.max[0];
  for (uint32_t p = 1; p < m.parts; ++p) {
    const float other = m.max[p * m.stride];
    peak = other > peak ? other : peak;
  }
  F total = V::Zero();
  for (uint32_t p = 0; p < m.parts; ++p) {
    const F share = SoftmaxExp2<V>(V::Set(m.max[p * m.stride] - peak));
    total = V::Fma(V::Load(m.sum + p * m.stride), share, total);
  }
  const F norm = V::Set(1.0f / V::ReduceAdd(total));
  const F first_share = SoftmaxExp2<V>(V::Set(m.max[0] - peak));
  for (uint32_t c = 0; c < m.head_dim; c += kLanes) {
    F y = V::Fma(V::Load(m.acc + c), first_share, V::Zero());
    for (uint32_t p = 1; p < m.parts; ++p) {
      const F share = SoftmaxExp2<V>(V::Set(m.max[p * m.stride] - peak));
      y = V::Fma(V::Load(m.acc + p * m.stride + c), share, y);
    }
    y = V::Mul(y, norm);
    const uint32_t left = m.head_dim - c;
    if (left >= kLanes) {
      V::StoreBf16(m.out + c, y);
    } else {
      V::StoreBf16First(m.out + c, static_cast<int>(left), y);
    }
  }
}
