// This file defines vectors of 8 lanes for AVX2 with FMA. It is included by avx2.cc, inside an
// anonymous namespace. vec_portable.inl.h explains the names.

struct Avx2Vec {
  static constexpr int kLanes = 8;
  static constexpr int kGroupRows = 4;
  using F = __m256;
  struct Pair {
    F even, odd;
  };

  static __m256i First(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }

  static F Zero() { return _mm256_setzero_ps(); }
  static F Set(float x) { return _mm256_set1_ps(x); }
  static F Load(const float* p) { return _mm256_loadu_ps(p); }
  static F LoadFirst(const float* p, int n) { return _mm256_maskload_ps(p, First(n)); }
  static void Store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static void StoreFirst(float* p, int n, F x) { _mm256_maskstore_ps(p, First(n), x); }
  static F Add(F a, F b) { return _mm256_add_ps(a, b); }
  static F Sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F Mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F Div(F a, F b) { return _mm256_div_ps(a, b); }
  static F Sqrt(F x) { return _mm256_sqrt_ps(x); }
  static F Fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F Max(F a, F b) { return _mm256_max_ps(a, b); }
  static F KeepFirst(F x, int n, F other) {
    return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(First(n)));
  }
  static F ZeroBelow(F x, F of, F least) {
    return _mm256_and_ps(x, _mm256_cmp_ps(of, least, _CMP_GE_OQ));
  }
  static float ReduceMax(F x) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
  }
  static float ReduceAdd(F x) {
    __m128 m = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_add_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_add_ss(m, _mm_movehdup_ps(m)));
  }

  // Outside [-127, 127] the scale is cut; -127 means zero.
  static F Cut(F x) { return _mm256_min_ps(_mm256_max_ps(x, Set(-127.0f)), Set(127.0f)); }
  static F FloorFraction(F x) {
    const F cut = Cut(x);
    return _mm256_sub_ps(cut, _mm256_floor_ps(cut));
  }
  static F ScaleByFloor(F p, F x) {
    const __m256i n = _mm256_cvttps_epi32(_mm256_floor_ps(Cut(x)));
    const __m256i bits = _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(p, _mm256_castsi256_ps(bits));
  }

  static F FromBits(__m128i b) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(b), 16));
  }
  static F LoadBf16(const bf16* p) {
    return FromBits(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F LoadBf16First(const bf16* p, int n) {
    alignas(16) bf16 part[8] = {};
    for (int i = 0; i < n; ++i) part[i] = p[i];
    return LoadBf16(part);
  }
  static __m128i Round(F x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  }
  static void StoreBf16(bf16* p, F x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), Round(x)); }
  static void StoreBf16Two(bf16* p, F low, F high) {
    StoreBf16(p, low);
    StoreBf16(p + kLanes, high);
  }
  static void StoreBf16First(bf16* p, int n, F x) {
    alignas(16) bf16 part[8];
    StoreBf16(part, x);
    for (int i = 0; i < n; ++i) p[i] = part[i];
  }

  static Pair Split(__m256i bits) {
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(bits, high))};
  }
  static void LoadHalves(const uint32_t* p, F& even, F& odd) {
    const Pair halves = LoadPair(p);
    even = halves.even;
    odd = halves.odd;
  }
  static void LoadHalvesFirst(const uint32_t* p, int n, F& even, F& odd) {
    const Pair halves = Split(_mm256_maskload_epi32(reinterpret_cast<const int*>(p), First(n)));
    even = halves.even;
    odd = halves.odd;
  }
  static Pair LoadPair(const uint32_t* p) {
    return Split(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Pair BroadcastPair(uint32_t bits) {
    return Split(_mm256_set1_epi32(static_cast<int>(bits)));
  }
  static F Dot2(F acc, const Pair& w, const Pair& x) {
    return Fma(w.odd, x.odd, Fma(w.even, x.even, acc));
  }

  static void Transpose(const uint32_t* const* rows, size_t offset, uint32_t* out, size_t stride) {
    __m256 r[8];
    __m256 t[8];
    for (int i = 0; i < 8; ++i) r[i] = Load(reinterpret_cast<const float*>(rows[i] + offset));
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
      r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
      r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
      r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      Store(reinterpret_cast<float*>(out + i * stride),
            _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
      Store(reinterpret_cast<float*>(out + (i + 4) * stride),
            _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
  }

  static F SumRows(const F (&v)[8]) {
    F u[2];
    for (int i = 0; i < 2; ++i) {
      const F* q = v + 4 * i;
      const F a = Add(_mm256_unpacklo_ps(q[0], q[1]), _mm256_unpackhi_ps(q[0], q[1]));
      const F b = Add(_mm256_unpacklo_ps(q[2], q[3]), _mm256_unpackhi_ps(q[2], q[3]));
      u[i] = Add(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
    }
    return Add(_mm256_permute2f128_ps(u[0], u[1], 0x20), _mm256_permute2f128_ps(u[0], u[1], 0x31));
  }

  static __m256i InterleaveHalf(const bf16* even, const bf16* odd) {
    const __m256i lo =
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(even)));
    const __m256i hi =
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(odd)));
    return _mm256_or_si256(lo, _mm256_slli_epi32(hi, 16));
  }
  static void Interleave(const bf16* even, const bf16* odd, uint32_t* out) {
    for (int half = 0; half < 2; ++half) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out) + half,
                          InterleaveHalf(even + half * kLanes, odd + half * kLanes));
    }
  }
  static void LoadInterleaved(const bf16* even, const bf16* odd, Pair& low, Pair& high) {
    low = {LoadBf16(even), LoadBf16(odd)};
    high = {LoadBf16(even + kLanes), LoadBf16(odd + kLanes)};
  }
};
