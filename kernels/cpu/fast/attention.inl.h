// Attention over packed tiles of keys and values (see kernels.h), for any vector type V. Included
// after gemm.inl.h, inside the anonymous namespace of a file compiled for one instruction set.

// 2^x to 3e-6: what it gives is rounded to bf16. Exactly 1 at 0 and 0 at -infinity, so that a tile
// a row does not see changes nothing.
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

// R rows' probabilities of one tile, from scores to bf16, and the softmax state moved on.
template <class V, int R>
[[gnu::always_inline]] inline void SoftmaxTile(const FlashTile& t, uint32_t row, uint32_t width,
                                               float (&score)[R][kKeyTile],
                                               bf16 (&share)[R][kKeyTile],
                                               float (&shrink)[R + kMaxLanes]) {
  using F = typename V::F;
  constexpr uint32_t kLanes = V::kLanes;
  const F scale = V::Set(t.scale);
  const F nothing = V::Set(-__builtin_inff());
  alignas(kAlign) float peak[R + kMaxLanes];
  for (int r = 0; r < R; ++r) {
    const int32_t valid = t.valid[row + r];
    F m = nothing;
    for (uint32_t c = 0; c < width; c += kLanes) {
      F s = V::Load(&score[r][c]);
      const int32_t left = valid - static_cast<int32_t>(c);
      if (left < static_cast<int32_t>(kLanes)) [[unlikely]] {
        s = V::KeepFirst(s, left < 0 ? 0 : left, nothing);
        V::Store(&score[r][c], s);
      }
      m = V::Max(m, s);
    }
    const float old_peak = t.max[row + r];
    const float tile_peak = V::ReduceMax(m) * t.scale;
    peak[r] = tile_peak > old_peak ? tile_peak : old_peak;
    shrink[r] = old_peak - peak[r];
    t.max[row + r] = peak[r];
  }
  for (uint32_t r = 0; r < static_cast<uint32_t>(R); r += kLanes) {
    V::Store(shrink + r, SoftmaxExp2<V>(V::Load(shrink + r)));
  }
  for (int r = 0; r < R; ++r) {
    const F minus_peak = V::Set(-peak[r]);
    float* sum = t.sum + (row + r) * kLanes;
    F total = V::Mul(V::Load(sum), V::Set(shrink[r]));
    for (uint32_t c = 0; c < width; c += kLanes) {
      const F p = SoftmaxExp2<V>(V::Fma(V::Load(&score[r][c]), scale, minus_peak));
      total = V::Add(total, p);
      V::StoreBf16(&share[r][c], p);
    }
    V::Store(sum, total);
  }
}

template <class V, int R>
void FlashGroup(const FlashTile& t, uint32_t row) {
  using F = typename V::F;
  constexpr uint32_t kLanes = V::kLanes;
  int32_t most = 0;
  for (int r = 0; r < R; ++r) most = t.valid[row + r] > most ? t.valid[row + r] : most;
  if (most == 0) return;
  const uint32_t seen = most < static_cast<int32_t>(kKeyTile) ? most : kKeyTile;
  const uint32_t panels = (seen + 2 * kLanes - 1) / (2 * kLanes);

  alignas(kAlign) float score[R][kKeyTile];
  alignas(kAlign) bf16 share[R][kKeyTile];
  alignas(kAlign) float shrink[R + kMaxLanes] = {};
  for (uint32_t panel = 0; panel < panels; ++panel) {
    F acc[R][2];
    if (row == 0) FetchNext(t, panel * kKeyTile / 2 / panels, kKeyTile / 2 / panels);
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = V::Zero();
    Accumulate<V, R>(t.q + row * t.q_stride, t.q_stride,
                     t.keys + size_t{panel} * t.head_dim * kLanes, t.head_dim, acc);
    for (int r = 0; r < R; ++r) {
      V::Store(&score[r][panel * 2 * kLanes], acc[r][0]);
      V::Store(&score[r][panel * 2 * kLanes + kLanes], acc[r][1]);
    }
  }
  SoftmaxTile<V, R>(t, row, panels * 2 * kLanes, score, share, shrink);

  const uint32_t acc_stride = AccStride(t.head_dim, kLanes);
  const uint32_t k = (seen + 1) / 2 * 2;
  for (uint32_t column = 0; column < acc_stride; column += 2 * kLanes) {
    F acc[R][2];
    const uint32_t cols = acc_stride / (2 * kLanes);
    if (row == 0)
      FetchNext(t, kKeyTile / 2 + column / (2 * kLanes) * kKeyTile / 2 / cols, kKeyTile / 2 / cols);
    float* to = t.acc + size_t{row} * acc_stride + column;
    for (int r = 0; r < R; ++r) {
      const F s = V::Set(shrink[r]);
      acc[r][0] = V::Mul(V::Load(to + r * acc_stride), s);
      acc[r][1] = V::Mul(V::Load(to + r * acc_stride + kLanes), s);
    }
    Accumulate<V, R>(&share[0][0], kKeyTile, t.values + size_t{column} * (kKeyTile / 2), k, acc);
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

template <class V>
void FlashKernel(const FlashTile& t) {
  const uint32_t groups = (t.rows + V::kGroupRows - 1) / V::kGroupRows;
  uint32_t row = 0;
  for (uint32_t g = 0; g < groups; ++g) {
    const uint32_t rows = (t.rows - row) / (groups - g);
    AnyFlashGroup<V, V::kGroupRows>(rows, t, row);
    row += rows;
  }
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
  for (uint32_t c = 0; c < m.head_dim; c += kLanes) {
    F y = V::Zero();
    for (uint32_t p = 0; p < m.parts; ++p) {
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

template <class V>
constexpr KernelTable MakeTable(const char* name) {
  return {
      name,           V::kLanes,        V::kGroupRows,       LinearKernel<V>,   GatedKernel<V>,
      EmbedKernel<V>, RmsNormKernel<V>, RopeAppendKernel<V>, PackKeysKernel<V>, PackValuesKernel<V>,
      FlashKernel<V>, MergeKernel<V>};
}
