// This file holds the kernels that score resident tokens (see score_kernels.h), for any vector type
// V. It is included after attention.inl.h, inside the anonymous namespace of a file that is
// compiled for one instruction set.

inline const uint32_t* Words(const bf16* row) { return reinterpret_cast<const uint32_t*>(row); }

// Squares of one key, summed by lane.
template <class V>
[[gnu::always_inline]] inline typename V::F LaneSquares(const bf16* key, uint32_t words) {
  constexpr uint32_t kLanes = V::kLanes;
  typename V::F sum = V::Zero();
  uint32_t at = 0;
  for (; at + kLanes <= words; at += kLanes) {
    const typename V::Pair pair = V::LoadPair(Words(key) + at);
    sum = V::Dot2(sum, pair, pair);
  }
  if (at < words) {
    typename V::F even, odd;
    V::LoadHalvesFirst(Words(key) + at, static_cast<int>(words - at), even, odd);
    sum = V::Fma(odd, odd, V::Fma(even, even, sum));
  }
  return sum;
}

// sum += key * inverse over a tile, for N vectors of words of each key.
template <class V, int N>
[[gnu::always_inline]] inline void AddScaled(const bf16* const* keys, const float* inverse,
                                             uint32_t at, float* sum) {
  constexpr uint32_t kLanes = V::kLanes;
  typename V::F acc[N][2];
  for (int n = 0; n < N; ++n) {
    acc[n][0] = V::Load(sum + 2 * n * kLanes);
    acc[n][1] = V::Load(sum + 2 * n * kLanes + kLanes);
  }
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kKeyTile; ++i) {
    const typename V::F scale = V::Set(inverse[i]);
    for (int n = 0; n < N; ++n) {
      typename V::F even, odd;
      V::LoadHalves(Words(keys[i]) + at + n * kLanes, even, odd);
      acc[n][0] = V::Fma(even, scale, acc[n][0]);
      acc[n][1] = V::Fma(odd, scale, acc[n][1]);
    }
  }
  for (int n = 0; n < N; ++n) {
    V::Store(sum + 2 * n * kLanes, acc[n][0]);
    V::Store(sum + 2 * n * kLanes + kLanes, acc[n][1]);
  }
}

// The same for the last `words` words, fewer than a vector has.
template <class V>
void AddScaledRest(const bf16* const* keys, const float* inverse, uint32_t at, uint32_t words,
                   float* sum) {
  constexpr uint32_t kLanes = V::kLanes;
  typename V::F low = V::Load(sum);
  typename V::F high = V::Load(sum + kLanes);
  for (uint32_t i = 0; i < kKeyTile; ++i) {
    typename V::F even, odd;
    V::LoadHalvesFirst(Words(keys[i]) + at, static_cast<int>(words), even, odd);
    low = V::Fma(even, V::Set(inverse[i]), low);
    high = V::Fma(odd, V::Set(inverse[i]), high);
  }
  V::Store(sum, low);
  V::Store(sum + kLanes, high);
}

// If kWords is not 0, it is the number of words of a key, known to the compiler.
template <class V, uint32_t kWords>
void AddDirections(const DirectionSum& t) {
  constexpr uint32_t kLanes = V::kLanes;
  const uint32_t words = kWords != 0 ? kWords : t.head_dim / 2;
  const typename V::F least = V::Set(__FLT_MIN__);
  for (uint32_t first = 0; first < kKeyTile; first += kLanes) {
    typename V::F lanes[kLanes];
#pragma GCC unroll 16
    for (uint32_t i = 0; i < kLanes; ++i) {
      FetchNext(t, first + i, 1);
      lanes[i] = LaneSquares<V>(t.keys[first + i], words);
    }
    const typename V::F squares = V::SumRows(lanes);
    V::Store(t.inverse + first,
             V::ZeroBelow(V::Div(V::Set(1.0f), V::Sqrt(squares)), squares, least));
  }
  uint32_t at = 0;
  for (; at + 2 * kLanes <= words; at += 2 * kLanes) {
    AddScaled<V, 2>(t.keys, t.inverse, at, t.sum + 2 * at);
  }
  for (; at + kLanes <= words; at += kLanes) {
    AddScaled<V, 1>(t.keys, t.inverse, at, t.sum + 2 * at);
  }
  if (at < words) AddScaledRest<V>(t.keys, t.inverse, at, words - at, t.sum + 2 * at);
}

template <class V>
void AddDirectionsKernel(const DirectionSum& t) {
  if (t.head_dim == 64) return AddDirections<V, 32>(t);
  if (t.head_dim == 128) return AddDirections<V, 64>(t);
  AddDirections<V, 0>(t);
}

template <class V, uint32_t kWords>
void Project(const Projection& t) {
  constexpr uint32_t kLanes = V::kLanes;
  const uint32_t words = kWords != 0 ? kWords : t.head_dim / 2;
  for (uint32_t first = 0; first < kKeyTile; first += kLanes) {
    typename V::F dots[kLanes];
#pragma GCC unroll 16
    for (uint32_t i = 0; i < kLanes; ++i) {
      const uint32_t* key = Words(t.keys[first + i]);
      const float* direction = t.direction;
      typename V::F sum = V::Zero();
      typename V::F even, odd;
      uint32_t at = 0;
      for (; at + kLanes <= words; at += kLanes, direction += 2 * kLanes) {
        V::LoadHalves(key + at, even, odd);
        sum = V::Fma(even, V::Load(direction), sum);
        sum = V::Fma(odd, V::Load(direction + kLanes), sum);
      }
      if (at < words) {
        V::LoadHalvesFirst(key + at, static_cast<int>(words - at), even, odd);
        sum = V::Fma(even, V::Load(direction), sum);
        sum = V::Fma(odd, V::Load(direction + kLanes), sum);
      }
      dots[i] = sum;
    }
    V::Store(t.score + first, V::Mul(V::SumRows(dots), V::Load(t.inverse + first)));
  }
}

template <class V>
void ProjectKernel(const Projection& t) {
  if (t.head_dim == 64) return Project<V, 32>(t);
  if (t.head_dim == 128) return Project<V, 64>(t);
  Project<V, 0>(t);
}

// SeenKeys, in whole panels.
template <int R>
uint32_t SeenWidth(const FlashTile& t, uint32_t row, uint32_t panel_columns, bool* masked) {
  return (SeenKeys(t, row, R, masked) + panel_columns - 1) / panel_columns * panel_columns;
}

// A row's scores to kept exponentials, and its sums moved on.
template <class V>
[[gnu::always_inline]] inline void KeepRow(const float* score, float scale, float peak,
                                           float shrink, uint32_t width, float* sum, float* kept) {
  using F = typename V::F;
  constexpr uint32_t kLanes = V::kLanes;
  const F by = V::Set(scale);
  const F minus_peak = V::Set(-peak);
  F total = V::Mul(V::Load(sum), V::Set(shrink));
  uint32_t c = 0;
#pragma GCC unroll 16
  for (; c < width; c += kLanes) {
    const F e = SoftmaxExp2<V>(V::Fma(V::Load(score + c), by, minus_peak));
    total = V::Add(total, e);
    V::Store(kept + c, e);
  }
  for (; c < kKeyTile; c += kLanes) V::Store(kept + c, V::Zero());
  V::Store(sum, total);
}

template <class V, int R>
void KeepSharesGroup(const WindowTile& w, uint32_t row) {
  constexpr uint32_t kColumns = 2 * V::kLanes;
  const FlashTile& t = w.queries;
  bool masked = false;
  const uint32_t width = SeenWidth<R>(t, row, kColumns, &masked);
  GroupTile<V, R> g;
  typename V::F lane_peak[R];
  Scores<V, R>(t, row, width / kColumns, g, lane_peak);
  if (masked) [[unlikely]]
    MaskScores<V, R>(t, row, width, g, lane_peak);
  MovePeaks<V, R>(t, row, g, lane_peak);
  for (int r = 0; r < R; ++r) {
    KeepRow<V>(g.score[r], t.scale, g.peak[r], g.shrink[r], width, t.sum + (row + r) * V::kLanes,
               w.kept + (row + r) * kKeyTile);
    w.peaks[row + r] = g.peak[r];
  }
}

template <class V, int R>
void AnyKeepSharesGroup(uint32_t rows, const WindowTile& w, uint32_t row) {
  if (rows == R) {
    KeepSharesGroup<V, R>(w, row);
  } else if constexpr (R > 1) {
    AnyKeepSharesGroup<V, R - 1>(rows, w, row);
  }
}

template <class V>
void KeepSharesKernel(const WindowTile& w) {
  ForRowGroups<V>(w.queries.rows, [&](uint32_t rows, uint32_t row) {
    AnyKeepSharesGroup<V, V::kGroupRows>(rows, w, row);
  });
}

template <class V>
void AddSharesKernel(const ShareTile& s) {
  constexpr uint32_t kLanes = V::kLanes;
  constexpr uint32_t kVectors = kKeyTile / kLanes;
  typename V::F mass[kVectors];
  for (uint32_t i = 0; i < kVectors; ++i) mass[i] = V::Load(s.mass + i * kLanes);
  for (uint32_t first = 0; first < s.rows; first += kLanes) {
    const uint32_t count = s.rows - first < kLanes ? s.rows - first : kLanes;
    // Vectors of rows, because there may be fewer than a vector has.
    alignas(kAlign) float exponent[kLanes] = {};
    alignas(kAlign) float factor[kLanes];
    for (uint32_t r = 0; r < count; ++r) exponent[r] = s.peaks[first + r] - s.max[first + r];
    V::Store(factor, SoftmaxExp2<V>(V::Load(exponent)));
    for (uint32_t r = 0; r < count; ++r) {
      const typename V::F by = V::Set(factor[r] * s.weight[first + r]);
      const float* kept = s.kept + size_t{first + r} * kKeyTile;
#pragma GCC unroll 16
      for (uint32_t i = 0; i < kVectors; ++i) {
        mass[i] = V::Fma(V::Load(kept + i * kLanes), by, mass[i]);
      }
    }
  }
  for (uint32_t i = 0; i < kVectors; ++i) V::Store(s.mass + i * kLanes, mass[i]);
}
