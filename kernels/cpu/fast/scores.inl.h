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
  return (SeenKeys<R>(t, row, masked) + panel_columns - 1) / panel_columns * panel_columns;
}

template <class V, int R>
void SoftmaxSumsGroup(const FlashTile& t, uint32_t row) {
  constexpr uint32_t kColumns = 2 * V::kLanes;
  bool masked = false;
  const uint32_t width = SeenWidth<R>(t, row, kColumns, &masked);
  if (width == 0) return;
  GroupTile<V, R> g;
  typename V::F lane_peak[R];
  Scores<V, R>(t, row, width / kColumns, g, lane_peak);
  if (masked) [[unlikely]]
    MaskScores<V, R>(t, row, width, g, lane_peak);
  MovePeaks<V, R>(t, row, g, lane_peak);
  Shares<V, R>(t, row, width, g);
}

template <class V, int R>
void AddSharesGroup(const ShareTile& s, uint32_t row) {
  constexpr uint32_t kLanes = V::kLanes;
  const FlashTile& t = s.queries;
  bool masked = false;
  const uint32_t width = SeenWidth<R>(t, row, 2 * kLanes, &masked);
  if (width == 0) return;
  GroupTile<V, R> g;
  typename V::F lane_peak[R];
  Scores<V, R>(t, row, width / (2 * kLanes), g, lane_peak);
  if (masked) [[unlikely]]
    MaskScores<V, R>(t, row, width, g, lane_peak);
  const typename V::F scale = V::Set(t.scale);
  for (uint32_t c = 0; c < width; c += kLanes) {
    typename V::F mass = V::Load(s.mass + c);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const typename V::F exponent =
          V::Fma(V::Load(&g.score[r][c]), scale, V::Set(-t.max[row + r]));
      mass = V::Fma(SoftmaxExp2<V>(exponent), V::Set(s.weight[row + r]), mass);
    }
    V::Store(s.mass + c, mass);
  }
}

template <class V, int R>
void AnySoftmaxSumsGroup(uint32_t rows, const FlashTile& t, uint32_t row) {
  if (rows == R) {
    SoftmaxSumsGroup<V, R>(t, row);
  } else if constexpr (R > 1) {
    AnySoftmaxSumsGroup<V, R - 1>(rows, t, row);
  }
}

template <class V, int R>
void AnyAddSharesGroup(uint32_t rows, const ShareTile& t, uint32_t row) {
  if (rows == R) {
    AddSharesGroup<V, R>(t, row);
  } else if constexpr (R > 1) {
    AnyAddSharesGroup<V, R - 1>(rows, t, row);
  }
}

template <class V>
void SoftmaxSumsKernel(const FlashTile& t) {
  ForRowGroups<V>(t.rows, [&](uint32_t rows, uint32_t row) {
    AnySoftmaxSumsGroup<V, V::kGroupRows>(rows, t, row);
  });
}

template <class V>
void AddSharesKernel(const ShareTile& s) {
  ForRowGroups<V>(s.queries.rows, [&](uint32_t rows, uint32_t row) {
    AnyAddSharesGroup<V, V::kGroupRows>(rows, s, row);
  });
}
