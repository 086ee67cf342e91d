// This file adds bytes to the vectors of vec_avx2.inl.h, with and without the instructions of
// AVX-VNNI. bytes_portable.inl.h explains the names.

struct Avx2Bytes : Avx2Vec {
  static constexpr bool kUnpacks = false;
  static constexpr int kMaxGroup = 4;
  using U = __m256i;
  using I = __m256i;

  static U LoadBytes(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static U Or(U a, U b) { return _mm256_or_si256(a, b); }
  template <int kMask>
  static U And(U x) {
    return _mm256_and_si256(x, _mm256_set1_epi8(kMask));
  }
  template <int kBits>
  static U ShiftRight(U x) {
    return _mm256_srli_epi16(x, kBits);
  }
  template <int kBits>
  static U Shift(U x) {
    if constexpr (kBits < 0) return ShiftRight<-kBits>(x);
    return _mm256_slli_epi16(x, kBits < 0 ? 0 : kBits);
  }
  static U Look(U x) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kUnevenCodes));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(codes), x);
  }

  static I NoSum() { return _mm256_setzero_si256(); }
  template <int kShift>
  static I SetTimes(const int32_t* value) {
    return _mm256_slli_epi32(_mm256_set1_epi32(*value), kShift);
  }
  static I SubInt(I a, I b) { return _mm256_sub_epi32(a, b); }
  static __m256i Four(const int8_t* x) {
    int32_t four;
    __builtin_memcpy(&four, x, sizeof(four));
    return _mm256_set1_epi32(four);
  }
#if defined(__AVXVNNI__)
  static constexpr bool kWideLessZero = false;
  static constexpr bool kHasPairs = false;
  static I DotWide(I acc, U w, const int8_t* x) { return _mm256_dpbusd_avx_epi32(acc, w, Four(x)); }
#else
  // Sums of two products saturate at 16 bits, which bytes above 127 would reach. So the sign of a
  // weight moves to the activation: 2 * 128 * 127 fits.
  static constexpr bool kWideLessZero = true;
  static I DotWide(I acc, U w, const int8_t* x) {
    const __m256i value = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
    return AddPairs(acc,
                    _mm256_maddubs_epi16(_mm256_abs_epi8(value), _mm256_sign_epi8(Four(x), value)));
  }
  static I AddPairs(I acc, __m256i pairs) {
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    __asm__("" : "+x"(acc));  // or GCC keeps all products of a block, and adds them at its end
    return acc;
  }
  static constexpr bool kHasPairs = true;
  static __m256i Pairs(U w, const int8_t* x) { return _mm256_maddubs_epi16(w, Four(x)); }
  static __m256i SumOfPairs(__m256i a, __m256i b) { return _mm256_add_epi16(a, b); }
#endif
  static F ToFloat(I x) { return _mm256_cvtepi32_ps(x); }

  static F LoadHalves16(const std::byte* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F LoadInt8(const std::byte* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }
  static void RoundToBytes(int8_t* p, F x) {
    const __m256i whole = _mm256_cvtps_epi32(x);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
  }
};
