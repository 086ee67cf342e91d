// This file adds bytes to the vectors of vec_portable.inl.h, which is included before it, and
// explains the names that all bytes_*.inl.h share. U holds four bytes for each lane and I a 32-bit
// integer.

struct PortableBytes : PortableVec {
  static constexpr bool kUnpacks = false;  // whether there is QuantizedTable::unpack
  static constexpr int kMaxGroup = 4;      // rows whose sums fit into the registers
  using U = uint8_t __attribute__((vector_size(16)));
  using I = int32_t __attribute__((vector_size(16)));

  static U LoadBytes(const std::byte* p) {
    U bytes;
    __builtin_memcpy(&bytes, p, sizeof(bytes));
    return bytes;
  }
  static U Or(U a, U b) { return a | b; }
  template <int kMask>
  static U And(U x) {
    return x & static_cast<uint8_t>(kMask);
  }
  // Bits that come from a neighbouring byte may be anything.
  template <int kBits>
  static U ShiftRight(U x) {
    return x >> kBits;
  }
  // To the left, or to the right for a negative number.
  template <int kBits>
  static U Shift(U x) {
    if constexpr (kBits < 0) return ShiftRight<-kBits>(x);
    return x << kBits;
  }
  // kUnevenCodes[x] for bytes below 16.
  static U Look(U x) {
    for (int i = 0; i < 16; ++i) x[i] = kUnevenCodes[x[i]];
    return x;
  }

  static I NoSum() { return I{}; }
  // *value * 2^kShift in every lane.
  template <int kShift>
  static I SetTimes(const int32_t* value) {
    const int32_t times = *value * (1 << kShift);
    return I{times, times, times, times};
  }
  static I SubInt(I a, I b) { return a - b; }
  // acc + the products of a lane's four bytes, without a sign, and x[0..3]. Bytes may be above 127.
  // With kWideLessZero each is taken less 128.
  static constexpr bool kWideLessZero = false;
  static I DotWide(I acc, U w, const int8_t* x) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < 4; ++i) acc[lane] += int32_t{w[4 * lane + i]} * x[i];
    }
    return acc;
  }
  // Whether there are Pairs(w, x), the sums of two products in 16 bits, for bytes below 128. Then
  // SumOfPairs adds two of them up in 16 bits, and AddPairs adds them to a lane's sum.
  static constexpr bool kHasPairs = false;
  static F ToFloat(I x) { return __builtin_convertvector(x, F); }

  // Half-precision numbers, and signed bytes.
  static F LoadHalves16(const std::byte* p) {
    F x;
    for (int i = 0; i < kLanes; ++i) {
      uint16_t half;
      __builtin_memcpy(&half, p + 2 * i, sizeof(half));
      x[i] = HalfToFloat(half);
    }
    return x;
  }
  static float HalfToFloat(uint16_t half) {
    // The exponent is moved to its place, and the product with 2^112 makes its bias right, also
    // for numbers that have none.
    const uint32_t bits = uint32_t{half & 0x7fffu} << 13;
    float magnitude;
    __builtin_memcpy(&magnitude, &bits, sizeof(magnitude));
    magnitude *= 0x1p112f;
    return (half & 0x8000u) != 0 ? -magnitude : magnitude;
  }
  static F LoadInt8(const std::byte* p) {
    F x;
    for (int i = 0; i < kLanes; ++i) x[i] = static_cast<float>(static_cast<int8_t>(p[i]));
    return x;
  }
  // Rounds to nearest even.
  static void RoundToBytes(int8_t* p, F x) {
    for (int i = 0; i < kLanes; ++i) {
      // The magnitude is at most 127, except for NaN, which makes the scale NaN too.
      const float rounded = __builtin_rintf(x[i]);
      p[i] = rounded >= -127.0f && rounded <= 127.0f ? static_cast<int8_t>(rounded) : int8_t{0};
    }
  }
};
