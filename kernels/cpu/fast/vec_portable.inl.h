// This file defines vectors of 4 lanes with the compiler's vector extension, for every CPU, and
// explains the names that all vec_*.inl.h share. It is included by portable.cc, inside an anonymous
// namespace.

struct PortableVec {
  static constexpr int kLanes = 4;
  static constexpr int kGroupRows = 3;  // rows whose accumulators fit into the registers
  using F = float __attribute__((vector_size(16)));
  using U = uint32_t __attribute__((vector_size(16)));

  // Two neighbours along k for each lane's column.
  struct Pair {
    F even, odd;
  };

  static F Zero() { return F{}; }
  static F Set(float x) { return F{x, x, x, x}; }
  static F Load(const float* p) { return F{p[0], p[1], p[2], p[3]}; }
  // The first n lanes; the others are zero, or not stored. 0 <= n < lanes.
  static F LoadFirst(const float* p, int n) {
    F x{};
    for (int i = 0; i < n; ++i) x[i] = p[i];
    return x;
  }
  static void Store(float* p, F x) { __builtin_memcpy(p, &x, sizeof(x)); }
  static void StoreFirst(float* p, int n, F x) {
    for (int i = 0; i < n; ++i) p[i] = x[i];
  }
  static F Add(F a, F b) { return a + b; }
  static F Sub(F a, F b) { return a - b; }
  static F Mul(F a, F b) { return a * b; }
  static F Div(F a, F b) { return a / b; }
  static F Sqrt(F x) {
    for (int i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
    return x;
  }
  static F Fma(F a, F b, F c) { return a * b + c; }  // rounded twice here
  static F Max(F a, F b) { return a > b ? a : b; }
  // The first n lanes of x, then those of `other`.
  static F KeepFirst(F x, int n, F other) {
    for (int i = n; i < kLanes; ++i) x[i] = other[i];
    return x;
  }
  // x where `of` is at least `least`, else 0.
  static F ZeroBelow(F x, F of, F least) { return (F)((U)x & (U)(of >= least)); }
  static float ReduceMax(F x) {
    float m = x[0];
    for (int i = 1; i < kLanes; ++i) m = x[i] > m ? x[i] : m;
    return m;
  }
  static float ReduceAdd(F x) { return (x[0] + x[2]) + (x[1] + x[3]); }

  // x - floor(x), and p * 2^floor(x), exact; 2^x is 0 for x < -126 and for -infinity.
  static float Cut(float x) { return x < -127.0f ? -127.0f : x > 127.0f ? 127.0f : x; }
  static F FloorFraction(F x) {
    for (int i = 0; i < kLanes; ++i) x[i] = Cut(x[i]) - __builtin_floorf(Cut(x[i]));
    return x;
  }
  static F ScaleByFloor(F p, F x) {
    U bits;
    for (int i = 0; i < kLanes; ++i) {
      bits[i] = static_cast<uint32_t>(static_cast<int>(__builtin_floorf(Cut(x[i]))) + 127) << 23;
    }
    return p * (F)bits;
  }

  static F LoadBf16(const bf16* p) {
    const U bits = {p[0].bits, p[1].bits, p[2].bits, p[3].bits};
    return (F)(bits << 16);
  }
  static F LoadBf16First(const bf16* p, int n) {
    U bits{};
    for (int i = 0; i < n; ++i) bits[i] = p[i].bits;
    return (F)(bits << 16);
  }
  // Rounds to nearest even.
  static void StoreBf16(bf16* p, F x) { StoreBf16First(p, kLanes, x); }
  static void StoreBf16Two(bf16* p, F low, F high) {
    StoreBf16(p, low);
    StoreBf16(p + kLanes, high);
  }
  static void StoreBf16First(bf16* p, int n, F x) {
    const U bits = (U)x;
    const U up = (bits + (0x7fffu + ((bits >> 16) & 1u))) >> 16;
    for (int i = 0; i < n; ++i) {
      const bool nan = (bits[i] & 0x7fffffffu) > 0x7f800000u;
      p[i].bits = static_cast<uint16_t>(nan ? (bits[i] >> 16) | 0x40u : up[i]);
    }
  }

  static Pair Split(U bits) { return {(F)(bits << 16), (F)(bits & 0xffff0000u)}; }
  // The low and the high halves of words as bf16; of the first n words alone, zeros behind them.
  static void LoadHalves(const uint32_t* p, F& even, F& odd) {
    LoadHalvesFirst(p, kLanes, even, odd);
  }
  static void LoadHalvesFirst(const uint32_t* p, int n, F& even, F& odd) {
    U bits{};
    for (int i = 0; i < n; ++i) bits[i] = p[i];
    even = (F)(bits << 16);
    odd = (F)(bits & 0xffff0000u);
  }
  static Pair LoadPair(const uint32_t* p) { return Split(U{p[0], p[1], p[2], p[3]}); }
  static Pair BroadcastPair(uint32_t bits) { return Split(U{bits, bits, bits, bits}); }
  // acc + w.even * x.even + w.odd * x.odd, in an order that is always the same.
  static F Dot2(F acc, const Pair& w, const Pair& x) {
    return (acc + w.even * x.even) + w.odd * x.odd;
  }

  // out[i * stride + j] = rows[j][offset + i], a square of lanes.
  static void Transpose(const uint32_t* const* rows, size_t offset, uint32_t* out, size_t stride) {
    for (int i = 0; i < kLanes; ++i) {
      for (int j = 0; j < kLanes; ++j)
        __builtin_memcpy(out + i * stride + j, rows[j] + offset + i, 4);
    }
  }
  // Lane i: the sum of v[i], in an order that is always the same.
  static F SumRows(const F (&v)[kLanes]) {
    F sums;
    for (int i = 0; i < kLanes; ++i) sums[i] = ReduceAdd(v[i]);
    return sums;
  }
  // The results of LoadPair for the first and the second half of Interleave's result.
  static void LoadInterleaved(const bf16* even, const bf16* odd, Pair& low, Pair& high) {
    low = {LoadBf16(even), LoadBf16(odd)};
    high = {LoadBf16(even + kLanes), LoadBf16(odd + kLanes)};
  }
  // out[i] = even[i] in the low half, odd[i] in the high half; twice as many as lanes.
  static void Interleave(const bf16* even, const bf16* odd, uint32_t* out) {
    for (int i = 0; i < 2 * kLanes; ++i) out[i] = even[i].bits | uint32_t{odd[i].bits} << 16;
  }
};
