// This file adds bytes to the vectors of vec_avx512.inl.h, with and without the instructions of
// AVX-512 VNNI. bytes_portable.inl.h explains the names.

#if defined(__AVX512BF16__)
using Avx512Floats = Avx512Bf16Vec;
#else
using Avx512Floats = Avx512Vec;
#endif

struct Avx512Bytes : Avx512Floats {
#if defined(__AVX512BF16__)
  static constexpr bool kUnpacks = true;
#else
  static constexpr bool kUnpacks = false;
#endif
  static constexpr int kMaxGroup = 8;
  using U = __m512i;
  using I = __m512i;

  static U LoadBytes(const std::byte* p) { return _mm512_loadu_si512(p); }
  static U Or(U a, U b) { return _mm512_or_si512(a, b); }
  template <int kMask>
  static U And(U x) {
    return _mm512_and_si512(x, _mm512_set1_epi8(kMask));
  }
  template <int kBits>
  static U ShiftRight(U x) {
    return _mm512_srli_epi16(x, kBits);
  }
  template <int kBits>
  static U Shift(U x) {
    if constexpr (kBits < 0) return ShiftRight<-kBits>(x);
    return _mm512_slli_epi16(x, kBits < 0 ? 0 : kBits);
  }
  static U Look(U x) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kUnevenCodes));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(codes), x);
  }

  static I NoSum() { return _mm512_setzero_si512(); }
  template <int kShift>
  static I SetTimes(const int32_t* value) {
    return _mm512_slli_epi32(_mm512_set1_epi32(*value), kShift);
  }
  static I SubInt(I a, I b) { return _mm512_sub_epi32(a, b); }
  static __m512i Four(const int8_t* x) {
    int32_t four;
    __builtin_memcpy(&four, x, sizeof(four));
    return _mm512_set1_epi32(four);
  }
  static constexpr bool kWideLessZero = false;
#if defined(__AVX512VNNI__)
  static constexpr bool kHasPairs = false;
  static I DotWide(I acc, U w, const int8_t* x) { return _mm512_dpbusd_epi32(acc, w, Four(x)); }
#else
  // Sums of two products saturate at 16 bits, which bytes above 127 would reach. Their highest bits
  // are multiplied on their own: 2 * 128 * 127 still fits.
  static I DotWide(I acc, U w, const int8_t* x) {
    return AddPairs(AddPairs(acc, Pairs(And<-128>(w), x)), Pairs(And<127>(w), x));
  }
  static I AddPairs(I acc, __m512i pairs) {
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
  static constexpr bool kHasPairs = true;
  static __m512i Pairs(U w, const int8_t* x) { return _mm512_maddubs_epi16(w, Four(x)); }
  static __m512i SumOfPairs(__m512i a, __m512i b) { return _mm512_add_epi16(a, b); }
#endif
  static F ToFloat(I x) { return _mm512_cvtepi32_ps(x); }

  static F LoadHalves16(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F LoadInt8(const std::byte* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
  static void RoundToBytes(int8_t* p, F x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
  }

#if defined(__AVX512BF16__)
  // values[i] = byte i of each lane, less `zero`.
  static void WidenBytes(U quad, int zero, F (&values)[4]) {
    // 2^23 + byte, which has the byte in its lowest bits.
    const __m512i byte = _mm512_set1_epi32(255);
    const __m512i power = _mm512_set1_epi32(0x4b000000);
    const F less = _mm512_set1_ps(0x1p23f + static_cast<float>(zero));
    const auto put = [&](int i, __m512i x) {
      constexpr int kFirstAndSecondOrThird = 0xea;
      const __m512i sum = _mm512_ternarylogic_epi32(x, byte, power, kFirstAndSecondOrThird);
      values[i] = _mm512_sub_ps(_mm512_castsi512_ps(sum), less);
    };
    put(0, quad);
    put(1, _mm512_srli_epi32(quad, 8));
    put(2, _mm512_srli_epi32(quad, 16));
    put(3, _mm512_srli_epi32(quad, 24));
  }
  // even[i] is what `table` has for the low half of byte i of each lane, odd[i] for the high half.
  static void WidenNibbles(U both, F table, F (&even)[4], F (&odd)[4]) {
    // The look-up takes no notice of the bits above the lowest four.
    even[0] = _mm512_permutexvar_ps(both, table);
    odd[0] = _mm512_permutexvar_ps(_mm512_srli_epi32(both, 4), table);
    even[1] = _mm512_permutexvar_ps(_mm512_srli_epi32(both, 8), table);
    odd[1] = _mm512_permutexvar_ps(_mm512_srli_epi32(both, 12), table);
    even[2] = _mm512_permutexvar_ps(_mm512_srli_epi32(both, 16), table);
    odd[2] = _mm512_permutexvar_ps(_mm512_srli_epi32(both, 20), table);
    even[3] = _mm512_permutexvar_ps(_mm512_srli_epi32(both, 24), table);
    odd[3] = _mm512_permutexvar_ps(_mm512_srli_epi32(both, 28), table);
  }
  // Lanes of words with `even` in the low half and `odd` in the high one.
  static void StoreBf16Pairs(uint32_t* p, F even, F odd) {
    // The lower half of the rounded numbers has those of `even`.
    const __m512i order =
        _mm512_set_epi32(0x001f000f, 0x001e000e, 0x001d000d, 0x001c000c, 0x001b000b, 0x001a000a,
                         0x00190009, 0x00180008, 0x00170007, 0x00160006, 0x00150005, 0x00140004,
                         0x00130003, 0x00120002, 0x00110001, 0x00100000);
    const auto rounded = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi16(order, rounded));
  }
#endif
};
