// This file defines vectors of 16 lanes for AVX-512 (F, BW, DQ, VL), with and without the bf16
// instructions. It is included by the files that are compiled for them, inside an anonymous
// namespace. vec_portable.inl.h explains the names, which mean the same in every vec_*.inl.h.

struct Avx512Base {
  static constexpr int kLanes = 16;
  using F = __m512;

  static __mmask16 First(int n) { return static_cast<__mmask16>((1u << n) - 1u); }

  static F Zero() { return _mm512_setzero_ps(); }
  static F Set(float x) { return _mm512_set1_ps(x); }
  static F Load(const float* p) { return _mm512_loadu_ps(p); }
  static F LoadFirst(const float* p, int n) { return _mm512_maskz_loadu_ps(First(n), p); }
  static void Store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static void StoreFirst(float* p, int n, F x) { _mm512_mask_storeu_ps(p, First(n), x); }
  static F Add(F a, F b) { return _mm512_add_ps(a, b); }
  static F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F Div(F a, F b) { return _mm512_div_ps(a, b); }
  static F Sqrt(F x) { return _mm512_sqrt_ps(x); }
  static F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F Max(F a, F b) { return _mm512_max_ps(a, b); }
  static F KeepFirst(F x, int n, F other) { return _mm512_mask_blend_ps(First(n), other, x); }
  static F ZeroBelow(F x, F of, F least) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(of, least, _CMP_GE_OQ), x);
  }
  static float ReduceMax(F x) { return _mm512_reduce_max_ps(x); }
  static float ReduceAdd(F x) { return _mm512_reduce_add_ps(x); }

  static F FloorFraction(F x) { return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF); }
  static F ScaleByFloor(F p, F x) { return _mm512_scalef_ps(p, x); }

  static F FromBits(__m256i b) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16));
  }
  static F LoadBf16(const bf16* p) {
    return FromBits(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F LoadBf16First(const bf16* p, int n) {
    return FromBits(_mm256_maskz_loadu_epi16(First(n), p));
  }

  static void Halves(__m512i bits, F& even, F& odd) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    even = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
    odd = _mm512_castsi512_ps(_mm512_and_si512(bits, high));
  }
  static void LoadHalves(const uint32_t* p, F& even, F& odd) {
    Halves(_mm512_loadu_si512(p), even, odd);
  }
  static void LoadHalvesFirst(const uint32_t* p, int n, F& even, F& odd) {
    Halves(_mm512_maskz_loadu_epi32(First(n), p), even, odd);
  }

  static void Transpose(const uint32_t* const* rows, size_t offset, uint32_t* out, size_t stride) {
    __m512i r[16];
    __m512i t[16];
    for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_si512(rows[i] + offset);
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
      t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
      r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
      r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
      r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
      r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
      t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
      t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
      t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
      t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
      _mm512_storeu_si512(out + i * stride, _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88));
      _mm512_storeu_si512(out + (i + 4) * stride, _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88));
      _mm512_storeu_si512(out + (i + 8) * stride, _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd));
      _mm512_storeu_si512(out + (i + 12) * stride, _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd));
    }
  }

  // Lane i of the result: the sum of v[i].
  static F SumRows(const F (&v)[16]) { return CombineRows(v, Add); }
  // Lane i of the result: the largest of v[i].
  static F MaxOfRows(const F (&v)[16]) { return CombineRows(v, Max); }
  template <class Combine>
  [[gnu::always_inline]] static F CombineRows(const F (&v)[16], Combine both) {
    F u[4];
    for (int i = 0; i < 4; ++i) {
      const F* q = v + 4 * i;
      const F a = both(_mm512_unpacklo_ps(q[0], q[1]), _mm512_unpackhi_ps(q[0], q[1]));
      const F b = both(_mm512_unpacklo_ps(q[2], q[3]), _mm512_unpackhi_ps(q[2], q[3]));
      u[i] = both(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
    }
    const F low =
        both(_mm512_shuffle_f32x4(u[0], u[1], 0x88), _mm512_shuffle_f32x4(u[0], u[1], 0xdd));
    const F high =
        both(_mm512_shuffle_f32x4(u[2], u[3], 0x88), _mm512_shuffle_f32x4(u[2], u[3], 0xdd));
    return both(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd));
  }
  // Bit i of the result tells whether lane i differs from 1.
  static uint32_t NotOne(F x) { return _mm512_cmp_ps_mask(x, Set(1.0f), _CMP_NEQ_UQ); }

  static void Interleave(const bf16* even, const bf16* odd, uint32_t* out) {
    __m512i low;
    __m512i high;
    InterleaveBits(even, odd, low, high);
    _mm512_storeu_si512(out, low);
    _mm512_storeu_si512(out + 16, high);
  }
  static void InterleaveBits(const bf16* even, const bf16* odd, __m512i& out_low,
                             __m512i& out_high) {
    const __m512i a = _mm512_loadu_si512(even);
    const __m512i b = _mm512_loadu_si512(odd);
    const __m512i step = _mm512_set1_epi32(0x00200000);  // odd words come from b: index + 32
    const __m512i low =
        _mm512_add_epi32(step, _mm512_setr_epi32(0x00000000, 0x00010001, 0x00020002, 0x00030003,
                                                 0x00040004, 0x00050005, 0x00060006, 0x00070007,
                                                 0x00080008, 0x00090009, 0x000a000a, 0x000b000b,
                                                 0x000c000c, 0x000d000d, 0x000e000e, 0x000f000f));
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(0x00100010));
    out_low = _mm512_permutex2var_epi16(a, low, b);
    out_high = _mm512_permutex2var_epi16(a, high, b);
  }
};

#if defined(__AVX512BF16__)

struct Avx512Bf16Vec : Avx512Base {
  static constexpr int kGroupRows = 12;
  using Pair = __m512i;

  static Pair LoadPair(const uint32_t* p) { return _mm512_loadu_si512(p); }
  static Pair BroadcastPair(uint32_t bits) { return _mm512_set1_epi32(static_cast<int>(bits)); }
  static void LoadInterleaved(const bf16* even, const bf16* odd, Pair& low, Pair& high) {
    InterleaveBits(even, odd, low, high);
  }
  static F Dot2(F acc, Pair w, Pair x) { return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)x); }
  static __m256i Round(F x) { return (__m256i)_mm512_cvtneps_pbh(x); }
  static void StoreBf16(bf16* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), Round(x));
  }
  static void StoreBf16Two(bf16* p, F low, F high) {
    _mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
  static void StoreBf16First(bf16* p, int n, F x) {
    _mm256_mask_storeu_epi16(p, First(n), Round(x));
  }
};

#else

struct Avx512Vec : Avx512Base {
  static constexpr int kGroupRows = 10;
  struct Pair {
    F even, odd;
  };

  static Pair Split(__m512i bits) {
    Pair halves;
    Halves(bits, halves.even, halves.odd);
    return halves;
  }
  static Pair LoadPair(const uint32_t* p) { return Split(_mm512_loadu_si512(p)); }
  static Pair BroadcastPair(uint32_t bits) {
    return Split(_mm512_set1_epi32(static_cast<int>(bits)));
  }
  static void LoadInterleaved(const bf16* even, const bf16* odd, Pair& low, Pair& high) {
    low = {LoadBf16(even), LoadBf16(odd)};
    high = {LoadBf16(even + kLanes), LoadBf16(odd + kLanes)};
  }
  static F Dot2(F acc, const Pair& w, const Pair& x) {
    return Fma(w.odd, x.odd, Fma(w.even, x.even, acc));
  }
  static __m256i Round(F x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    up = _mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
  }
  static void StoreBf16(bf16* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), Round(x));
  }
  static void StoreBf16Two(bf16* p, F low, F high) {
    StoreBf16(p, low);
    StoreBf16(p + kLanes, high);
  }
  static void StoreBf16First(bf16* p, int n, F x) {
    _mm256_mask_storeu_epi16(p, First(n), Round(x));
  }
};

#endif
