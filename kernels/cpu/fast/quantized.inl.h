// This file holds products of quantised strips (quantized_kernels.h), for any type V of vectors of
// bytes. It is included after a bytes_*.inl.h, inside the anonymous namespace of a file that is
// compiled for one instruction set.

// The codes of quads 2 i and 2 i + 1 of a block.
template <class V, QuantizedFormat kFormat, int i>
[[gnu::always_inline]] inline void LoadCodes(const std::byte* codes, const std::byte* high,
                                             typename V::U& even, typename V::U& odd) {
  constexpr size_t kBytes = size_t{4} * V::kLanes;
  if constexpr (kFormat.bits == 8) {
    even = V::LoadBytes(codes + 2 * i * kBytes);
    odd = V::LoadBytes(codes + (2 * i + 1) * kBytes);
    return;
  }
  const typename V::U both = V::LoadBytes(codes + i * kBytes);
  even = V::template And<15>(both);
  odd = V::template And<15>(V::template ShiftRight<4>(both));
  if constexpr (kFormat.uneven) {
    even = V::Look(even);
    odd = V::Look(odd);
  }
  if constexpr (kFormat.bits == 5) {
    const typename V::U bits = V::LoadBytes(high);
    even = V::Or(even, V::template And<16>(V::template Shift<4 - 2 * i>(bits)));
    odd = V::Or(odd, V::template And<16>(V::template Shift<3 - 2 * i>(bits)));
  }
  if constexpr (kFormat.bits == 6) {
    const typename V::U bits = V::LoadBytes(high + i / 2 * kBytes);
    even = V::Or(even, V::template And<48>(V::template Shift<4 - i % 2 * 4>(bits)));
    odd = V::Or(odd, V::template And<48>(V::template Shift<2 - i % 2 * 4>(bits)));
  }
}

// The steps of a group, and the offsets of a block.
template <class V, QuantizedFormat kFormat>
[[gnu::always_inline]] inline typename V::F LoadSteps(const std::byte* strip, const StripLayout& at,
                                                      uint32_t group) {
  constexpr uint32_t kGroups = kFormat.super / kFormat.group;
  const typename V::F scales =
      V::LoadHalves16(strip + at.scales + size_t{2} * (group / kGroups) * V::kLanes);
  if constexpr (!kFormat.steps) return scales;
  return V::Mul(scales, V::LoadInt8(strip + at.steps + size_t{group} * V::kLanes));
}
template <class V, QuantizedFormat kFormat>
[[gnu::always_inline]] inline typename V::F LoadOffsets(const std::byte* strip,
                                                        const StripLayout& at, uint32_t block) {
  constexpr uint32_t kBlocks = kFormat.super / kQuantizedBlock;
  const typename V::F scales =
      V::LoadHalves16(strip + at.offset_scales + size_t{2} * (block / kBlocks) * V::kLanes);
  if constexpr (!kFormat.steps) return scales;
  return V::Mul(scales, V::LoadInt8(strip + at.offsets + size_t{block} * V::kLanes));
}

constexpr int Log2(uint32_t power) { return power <= 1 ? 0 : 1 + Log2(power / 2); }

// Codes may be above 127.
constexpr bool IsWide(const QuantizedFormat& format) { return format.bits == 8 || format.uneven; }

// Quads 2 i and 2 i + 1 of a block.
template <class V, QuantizedFormat kFormat, int R, int i>
[[gnu::always_inline]] inline void AddWidePair(const std::byte* codes, const std::byte* high,
                                               const ActivationBlock* rows,
                                               typename V::I (&sum)[R]) {
  typename V::U even;
  typename V::U odd;
  LoadCodes<V, kFormat, i>(codes, high, even, odd);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) sum[r] = V::DotWide(sum[r], even, rows[r].codes + 8 * i);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) sum[r] = V::DotWide(sum[r], odd, rows[r].codes + 8 * i + 4);
}

// acc + the products of four quads of codes of kBits, at most 6, and x[0..15]. In 16 bits fit sums
// of 8 products with 5 bits, and of 4 products with 6 bits.
template <class V, int kBits>
[[gnu::always_inline]] inline typename V::I DotFour(typename V::I acc, const typename V::U (&w)[4],
                                                    const int8_t* x) {
  if constexpr (!V::kHasPairs) {
    for (int quad = 0; quad < 4; ++quad) acc = V::DotWide(acc, w[quad], x + 4 * quad);
    return acc;
  } else {
    const auto first = V::SumOfPairs(V::Pairs(w[0], x), V::Pairs(w[1], x + 4));
    const auto last = V::SumOfPairs(V::Pairs(w[2], x + 8), V::Pairs(w[3], x + 12));
    if constexpr (kBits <= 5) return V::AddPairs(acc, V::SumOfPairs(first, last));
    return V::AddPairs(V::AddPairs(acc, first), last);
  }
}

// Half `h` of a block. Few vectors are in use at a time, as AVX2 has 16.
template <class V, QuantizedFormat kFormat, int R, int h>
[[gnu::always_inline]] inline void AddHalf(const std::byte* codes, const std::byte* high,
                                           const ActivationBlock* rows, typename V::I (&sum)[R]) {
  if constexpr (IsWide(kFormat)) {
    AddWidePair<V, kFormat, R, 2 * h>(codes, high, rows, sum);
    AddWidePair<V, kFormat, R, 2 * h + 1>(codes, high, rows, sum);
  } else {
    typename V::U quads[4];
    LoadCodes<V, kFormat, 2 * h>(codes, high, quads[0], quads[1]);
    LoadCodes<V, kFormat, 2 * h + 1>(codes, high, quads[2], quads[3]);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      sum[r] = DotFour<V, kFormat.bits>(sum[r], quads, rows[r].codes + 16 * h);
    }
  }
}

template <class V, int R>
[[gnu::always_inline]] inline void AddGroup(typename V::F steps, const ActivationBlock* rows,
                                            const typename V::I (&sum)[R],
                                            typename V::F (&acc)[R]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    acc[r] = V::Fma(V::Mul(steps, V::Set(rows[r].scale)), V::ToFloat(sum[r]), acc[r]);
  }
}

// out[r] = row r times the strip. The next strip is fetched meanwhile, as it follows in memory.
template <class V, QuantizedFormat kFormat, int R>
void MultiplyKernel(const StripTile& t) {
  constexpr size_t kBytes = size_t{4} * V::kLanes;
  constexpr size_t kCodeBytes = kBytes * (kFormat.bits == 8 ? 8 : 4);
  constexpr size_t kHighBytes = kBytes * (kFormat.bits == 8 ? 0 : kFormat.bits - 4);
  constexpr int kShift = Log2(kFormat.zero);
  constexpr bool kHasZero = kFormat.zero != 0 && !(IsWide(kFormat) && V::kWideLessZero);
  typename V::F acc[R];
  for (int r = 0; r < R; ++r) acc[r] = V::Zero();
  const std::byte* codes = t.strip + t.at.codes;
  const std::byte* high = t.strip + t.at.high;
  const std::byte* fetch = t.strip + t.at.bytes;
  const size_t fetch_step = t.at.bytes / t.blocks;
  const ActivationBlock* rows = t.rows;
  for (uint32_t block = 0; block < t.blocks; ++block) {
    // A little more than the block's share, as scales are beside the codes.
    for (size_t line = 0; line < kCodeBytes + kHighBytes + kAlign; line += kAlign) {
      __builtin_prefetch(fetch + line, 0, 2);
    }
    fetch += fetch_step;
    typename V::I sum[R];
    for (int r = 0; r < R; ++r) {
      const int32_t* minus = kFormat.group == 16 ? &rows[r].minus_first : &rows[r].minus_codes;
      sum[r] = kHasZero ? V::template SetTimes<kShift>(minus) : V::NoSum();
    }
    AddHalf<V, kFormat, R, 0>(codes, high, rows, sum);
    if constexpr (kFormat.group == 16) {
      AddGroup<V, R>(LoadSteps<V, kFormat>(t.strip, t.at, 2 * block), rows, sum, acc);
      for (int r = 0; r < R; ++r) {
        sum[r] = V::SubInt(V::template SetTimes<kShift>(&rows[r].minus_codes),
                           V::template SetTimes<kShift>(&rows[r].minus_first));
      }
    }
    AddHalf<V, kFormat, R, 1>(codes, high, rows, sum);
    const uint32_t group = kFormat.group == 16 ? 2 * block + 1 : block;
    AddGroup<V, R>(LoadSteps<V, kFormat>(t.strip, t.at, group), rows, sum, acc);
    if constexpr (kFormat.offsets) {
      const typename V::F offsets = LoadOffsets<V, kFormat>(t.strip, t.at, block);
      for (int r = 0; r < R; ++r) acc[r] = V::Fma(offsets, V::Set(rows[r].minus_sum), acc[r]);
    }
    codes += kCodeBytes;
    high += kHighBytes;
    rows += R;
  }
  for (int r = 0; r < R; ++r) V::Store(t.out + r * t.out_stride, acc[r]);
}

// The values of four neighbours along k become two words of bf16 pairs for each lane.
template <class V, QuantizedFormat kFormat>
[[gnu::always_inline]] inline void PutQuad(typename V::F (&values)[4], typename V::F steps,
                                           typename V::F minus_offsets, uint32_t* out) {
  for (typename V::F& value : values) {
    // The product is exact, so that nothing changes if the sum is fused with it.
    value = kFormat.offsets ? V::Fma(steps, value, minus_offsets) : V::Mul(steps, value);
  }
  V::StoreBf16Pairs(out, values[0], values[1]);
  V::StoreBf16Pairs(out + 2 * V::kLanes, values[2], values[3]);
}

// `table` has what codes of 4 bits stand for, less the zero.
template <class V, QuantizedFormat kFormat, int i>
[[gnu::always_inline]] inline void PutQuads(const std::byte* codes, const std::byte* high,
                                            typename V::F table, typename V::F steps,
                                            typename V::F minus_offsets, uint32_t* out) {
  typename V::F even[4];
  typename V::F odd[4];
  if constexpr (kFormat.bits == 4) {
    V::WidenNibbles(V::LoadBytes(codes + size_t{4} * V::kLanes * i), table, even, odd);
  } else {
    typename V::U even_codes;
    typename V::U odd_codes;
    LoadCodes<V, kFormat, i>(codes, high, even_codes, odd_codes);
    V::WidenBytes(even_codes, kFormat.zero, even);
    V::WidenBytes(odd_codes, kFormat.zero, odd);
  }
  PutQuad<V, kFormat>(even, steps, minus_offsets, out + size_t{4} * 2 * i * V::kLanes);
  PutQuad<V, kFormat>(odd, steps, minus_offsets, out + size_t{4} * (2 * i + 1) * V::kLanes);
}

template <class V, QuantizedFormat kFormat>
void UnpackKernel(const UnpackedStrip& t) {
  constexpr size_t kBytes = size_t{4} * V::kLanes;
  constexpr size_t kCodeBytes = kBytes * (kFormat.bits == 8 ? 8 : 4);
  constexpr size_t kHighBytes = kBytes * (kFormat.bits == 8 ? 0 : kFormat.bits - 4);
  const std::byte* codes = t.strip + t.at.codes + kCodeBytes * t.first;
  const std::byte* high = t.strip + t.at.high + kHighBytes * t.first;
  uint32_t* out = t.out;
  float values[16];
  for (int code = 0; code < 16; ++code) {
    values[code] = static_cast<float>((kFormat.uneven ? kUnevenCodes[code] : code) - kFormat.zero);
  }
  const typename V::F table = V::Load(values);
  for (uint32_t block = t.first; block < t.end; ++block) {
    constexpr uint32_t kGroups = kQuantizedBlock / kFormat.group;
    typename V::F steps = LoadSteps<V, kFormat>(t.strip, t.at, block * kGroups);
    typename V::F minus_offsets = V::Zero();
    if constexpr (kFormat.offsets) {
      minus_offsets = V::Sub(minus_offsets, LoadOffsets<V, kFormat>(t.strip, t.at, block));
    }
    PutQuads<V, kFormat, 0>(codes, high, table, steps, minus_offsets, out);
    PutQuads<V, kFormat, 1>(codes, high, table, steps, minus_offsets, out);
    if constexpr (kGroups == 2) steps = LoadSteps<V, kFormat>(t.strip, t.at, block * 2 + 1);
    PutQuads<V, kFormat, 2>(codes, high, table, steps, minus_offsets, out);
    PutQuads<V, kFormat, 3>(codes, high, table, steps, minus_offsets, out);
    codes += kCodeBytes;
    high += kHighBytes;
    out += kQuantizedBlock / 2 * 2 * V::kLanes;
  }
}

template <class V>
void QuantizeKernel(const bf16* in, uint32_t k, ActivationBlock* out, size_t stride) {
  constexpr int kParts = kQuantizedBlock / V::kLanes;
  for (uint32_t at = 0; at < k; at += kQuantizedBlock, out += stride) {
    typename V::F x[kParts];
    typename V::F most = V::Zero();
    typename V::F nothing = V::Zero();  // NaN where an activation is not finite
    for (int i = 0; i < kParts; ++i) {
      x[i] = V::LoadBf16(in + at + i * V::kLanes);
      most = V::Max(most, V::Max(x[i], V::Sub(V::Zero(), x[i])));
      nothing = V::Add(nothing, V::Sub(x[i], x[i]));
    }
    const float largest = V::ReduceMax(most);
    const bool some = largest > kLeastActivation;
    const float scale = (some ? largest / 127.0f : 0.0f) + V::ReduceAdd(nothing);
    const typename V::F inverse = V::Set(some ? 127.0f / largest : 0.0f);
    for (int i = 0; i < kParts; ++i) {
      V::RoundToBytes(out->codes + i * V::kLanes, V::Mul(x[i], inverse));
    }
    int32_t halves[2] = {0, 0};
    for (uint32_t i = 0; i < kQuantizedBlock; ++i) halves[i / 16] += out->codes[i];
    out->scale = scale;
    out->minus_codes = -(halves[0] + halves[1]);
    out->minus_first = -halves[0];
    out->minus_sum = scale * static_cast<float>(out->minus_codes);
  }
}

template <class V, uint32_t kPlace, int kSize>
constexpr auto MultiplyFor() -> void (*)(const StripTile&) {
  if constexpr ((1 << kSize) > V::kMaxGroup) {
    return nullptr;
  } else {
    return MultiplyKernel<V, kQuantizedFormats[kPlace], 1 << kSize>;
  }
}

template <class V, uint32_t kPlace = 0>
constexpr void FillFormats(QuantizedTable& table) {
  table.multiply[kPlace][0] = MultiplyFor<V, kPlace, 0>();
  table.multiply[kPlace][1] = MultiplyFor<V, kPlace, 1>();
  table.multiply[kPlace][2] = MultiplyFor<V, kPlace, 2>();
  table.multiply[kPlace][3] = MultiplyFor<V, kPlace, 3>();
  if constexpr (V::kUnpacks) table.unpack[kPlace] = UnpackKernel<V, kQuantizedFormats[kPlace]>;
  if constexpr (kPlace + 1 < kFormats) FillFormats<V, kPlace + 1>(table);
}

template <class V>
constexpr QuantizedTable MakeQuantizedTable() {
  QuantizedTable table = {};
  table.lanes = V::kLanes;
  table.group_sizes = Log2(V::kMaxGroup) + 1;
  table.quantize = QuantizeKernel<V>;
  FillFormats<V>(table);
  return table;
}
