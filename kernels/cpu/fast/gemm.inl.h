// This file holds matrix products over panels (see kernels.h), for any vector type V. It is
// included after a vec_*.inl.h, inside its anonymous namespace.

// A row's pair of elements at `k`, read without any claim on alignment.
inline uint32_t PairBits(const bf16* p) {
  uint32_t bits;
  __builtin_memcpy(&bits, p, sizeof(bits));
  return bits;
}

// Weights are fetched this many 32-bit words (8 KiB) before their use, beyond the end of a panel
// into the next one.
constexpr size_t kAhead = 2048;

// acc[r] += rows of `in` times one panel. R rows share each load of the panel. Each step fetches
// the two lines that lie kFetchAhead words further on, or none if that is 0.
template <class V, int R, size_t kFetchAhead = 0>
[[gnu::always_inline]] inline void Accumulate(const bf16* in, size_t stride, const uint32_t* panel,
                                              uint32_t k, typename V::F (&acc)[R][2]) {
  constexpr int kBases = (R + 2) / 3;  // three rows share an address register
  const bf16* base[kBases];
  for (int i = 0; i < kBases; ++i) base[i] = in + size_t(3 * i) * stride;
  for (uint32_t step = k / 2; step != 0; --step) {
    if constexpr (kFetchAhead != 0) {
      for (int at = 0; at < 2 * V::kLanes; at += 16) {
        __builtin_prefetch(panel + kFetchAhead + at, 0, 2);
      }
    }
    const typename V::Pair w0 = V::LoadPair(panel);
    const typename V::Pair w1 = V::LoadPair(panel + V::kLanes);
    panel += 2 * V::kLanes;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const typename V::Pair x = V::BroadcastPair(PairBits(base[r / 3] + size_t(r % 3) * stride));
      acc[r][0] = V::Dot2(acc[r][0], w0, x);
      acc[r][1] = V::Dot2(acc[r][1], w1, x);
    }
    for (int i = 0; i < kBases; ++i) base[i] += 2;
  }
  if (k % 2 != 0) {
    const typename V::Pair w0 = V::LoadPair(panel);
    const typename V::Pair w1 = V::LoadPair(panel + V::kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const typename V::Pair x = V::BroadcastPair(base[r / 3][size_t(r % 3) * stride].bits);
      acc[r][0] = V::Dot2(acc[r][0], w0, x);
      acc[r][1] = V::Dot2(acc[r][1], w1, x);
    }
  }
}

// 2^x; relative error below 1e-7 plus rounding.
template <class V>
typename V::F Exp2(typename V::F x) {
  const typename V::F f = V::FloorFraction(x);
  typename V::F p = V::Fma(f, V::Set(1.8671308644e-3f), V::Set(9.0170288458e-3f));
  p = V::Fma(f, p, V::Set(5.5799912661e-2f));
  p = V::Fma(f, p, V::Set(2.4016444385e-1f));
  p = V::Fma(f, p, V::Set(6.9315129518e-1f));
  p = V::Fma(f, p, V::Set(1.0f));
  return V::ScaleByFloor(p, x);
}

template <class V>
typename V::F Silu(typename V::F x) {
  const typename V::F e = Exp2<V>(V::Mul(x, V::Set(-1.44269504f)));
  return V::Div(x, V::Add(V::Set(1.0f), e));
}

// See Activation: the exponent is -2 log2(e) u.
template <class V>
typename V::F Gelu(typename V::F x) {
  const typename V::F slope = V::Fma(V::Mul(x, x), V::Set(-0.10294324f), V::Set(-2.30220819f));
  return V::Div(x, V::Add(V::Set(1.0f), Exp2<V>(V::Mul(x, slope))));
}

template <class V, Activation kActivation>
typename V::F Activate(typename V::F x) {
  if constexpr (kActivation == Activation::kGelu) return Gelu<V>(x);
  return Silu<V>(x);
}

template <Activation kActivation>
struct ActivatedOut : GatedOut {};

template <class V, int R>
void StoreLinear(typename V::F (&acc)[R][2], uint32_t row, uint32_t column, uint32_t columns,
                 const LinearOut& to) {
  constexpr int kLanes = V::kLanes;
  for (int r = 0; r < R; ++r) {
    for (int half = 0; half < 2; ++half) {
      const uint32_t c = column + half * kLanes;
      if (c >= columns) break;
      float* out = to.out + (row + r) * to.stride + c;
      if (columns - c >= static_cast<uint32_t>(kLanes)) {
        V::Store(out, to.accumulate ? V::Add(V::Load(out), acc[r][half]) : acc[r][half]);
      } else {
        const int n = static_cast<int>(columns - c);
        V::StoreFirst(out, n,
                      to.accumulate ? V::Add(V::LoadFirst(out, n), acc[r][half]) : acc[r][half]);
      }
    }
  }
}

template <class V, int R, Activation kActivation>
void StoreGated(typename V::F (&acc)[R][2], uint32_t row, uint32_t column, uint32_t columns,
                const GatedOut& to) {
  constexpr int kLanes = V::kLanes;
  const uint32_t c = column / 2;
  for (int r = 0; r < R; ++r) {
    const typename V::F y = V::Mul(Activate<V, kActivation>(acc[r][0]), acc[r][1]);
    bf16* out = to.out + (row + r) * to.stride + c;
    if (columns - c >= static_cast<uint32_t>(kLanes)) {
      V::StoreBf16(out, y);
    } else {
      V::StoreBf16First(out, static_cast<int>(columns - c), y);
    }
  }
}

template <class V, int R>
void StoreTile(typename V::F (&acc)[R][2], uint32_t row, uint32_t column, uint32_t columns,
               const LinearOut& to) {
  StoreLinear<V, R>(acc, row, column, columns, to);
}
template <class V, int R, Activation kActivation>
void StoreTile(typename V::F (&acc)[R][2], uint32_t row, uint32_t column, uint32_t columns,
               const ActivatedOut<kActivation>& to) {
  StoreGated<V, R, kActivation>(acc, row, column, columns, to);
}

template <class V, int R, class Out>
void GroupTimesPanel(const LinearTile& t, const Out& out, uint32_t row, uint32_t panel) {
  typename V::F acc[R][2];
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = V::Zero();
  const size_t panel_words = size_t{(t.k + 1) / 2} * 2 * V::kLanes;
  Accumulate<V, R, kAhead>(t.in + row * t.in_stride, t.in_stride, t.panels + panel * panel_words,
                           t.k, acc);
  StoreTile<V, R>(acc, row, panel * 2 * V::kLanes, t.columns, out);
}

// Picks the instance for `rows`, 1..R.
template <class V, int R, class Out>
void AnyGroup(uint32_t rows, const LinearTile& t, const Out& out, uint32_t row, uint32_t panel) {
  if (rows == R) {
    GroupTimesPanel<V, R>(t, out, row, panel);
  } else if constexpr (R > 1) {
    AnyGroup<V, R - 1>(rows, t, out, row, panel);
  }
}

// Rows in groups of nearly equal size. Streaming: all groups over a panel, then the next panel,
// whose lines are fetched meanwhile. Otherwise all panels over a group, whose rows stay in the
// first-level cache while the panels come from the second.
template <class V, class Out>
void Product(const LinearTile& t, const Out& out) {
  const uint32_t groups = (t.rows + V::kGroupRows - 1) / V::kGroupRows;
  const auto first_row = [&](uint32_t g) {
    return g * (t.rows / groups) + (g * (t.rows % groups)) / groups;
  };
  if (t.stream) {
    for (uint32_t panel = 0; panel < t.num_panels; ++panel) {
      for (uint32_t g = 0; g < groups; ++g) {
        const uint32_t row = first_row(g);
        AnyGroup<V, V::kGroupRows>(first_row(g + 1) - row, t, out, row, panel);
      }
    }
    return;
  }
  for (uint32_t g = 0; g < groups; ++g) {
    const uint32_t row = first_row(g);
    const uint32_t rows = first_row(g + 1) - row;
    for (uint32_t panel = 0; panel < t.num_panels; ++panel) {
      AnyGroup<V, V::kGroupRows>(rows, t, out, row, panel);
    }
  }
}

template <class V>
void LinearKernel(const LinearTile& tile, const LinearOut& out) {
  Product<V>(tile, out);
}

template <class V, Activation kActivation>
void GatedKernel(const LinearTile& tile, const GatedOut& out) {
  Product<V>(tile, ActivatedOut<kActivation>{out});
}

template <class V, Activation kActivation>
void GateKernel(const float* in, size_t n, bf16* out) {
  constexpr size_t kLanes = V::kLanes;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes, in += 2 * kLanes) {
    V::StoreBf16(out + i, V::Mul(Activate<V, kActivation>(V::Load(in)), V::Load(in + kLanes)));
  }
  if (i == n) return;
  V::StoreBf16First(out + i, static_cast<int>(n - i),
                    V::Mul(Activate<V, kActivation>(V::Load(in)), V::Load(in + kLanes)));
}

template <class V>
void PutKernel(const float* from, size_t n, float* to, bool accumulate) {
  constexpr size_t kLanes = V::kLanes;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    V::Store(to + i, accumulate ? V::Add(V::Load(to + i), V::Load(from + i)) : V::Load(from + i));
  }
  for (; i < n; ++i) to[i] = accumulate ? to[i] + from[i] : from[i];
}
