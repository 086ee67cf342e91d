// This file holds attention of decode rows straight from the pages (DecodePart in kernels.h), for
// any vector type V. It is included after attention.inl.h, inside the anonymous namespace of a file
// that is compiled for one instruction set.
//
// A decode row has too few query heads to pay for bringing keys into panels as prompts do. Scores
// are therefore sums along head_dim, reduced for as many keys at a time as a vector has lanes, and
// values are paired up in registers. A part takes one pass over its keys, one softmax and one pass
// over its values.

// Asks for rows [first, first + count) of a block.
template <uint32_t kDim>
void FetchRows(const bf16* block, uint32_t first, uint32_t count) {
  for (uint32_t at = first * kDim; at < (first + count) * kDim; at += 32) {
    __builtin_prefetch(block + at, 0, 2);
  }
}

// Scores of a block of keys, of which the first `left` count, for every query head.
template <class V, uint32_t kDim, bool kWhole>
void BlockScores(const DecodePart& p, uint32_t block, uint32_t left,
                 float (*score)[kDecodePartTokens]) {
  using F = typename V::F;
  constexpr uint32_t kLanes = V::kLanes;
  const bf16* keys = p.blocks[block];
  const bf16* fetch = p.blocks[block + kFetchBlocks];
  uint32_t due = 0;  // lines to fetch, in units of 1 / rows: evenly, so that they don't queue up
  for (uint32_t r = 0; r < p.rows; ++r) {
    const bf16* q = p.q + size_t{r} * kDim;
    F dots[kLanes];
#pragma GCC unroll 16
    for (uint32_t i = 0; i < kLanes; ++i) {
      const bf16* key = keys + size_t{kWhole || i < left ? i : 0} * kDim;
      due += kDim / 32;
      if (due >= p.rows) {
        due -= p.rows;
        __builtin_prefetch(fetch, 0, 2);
        fetch += 32;
      }
      dots[i] = V::Zero();
#pragma GCC unroll 4
      for (uint32_t at = 0; at < kDim; at += 2 * kLanes) {
        dots[i] = V::Dot2(dots[i], V::LoadPair(reinterpret_cast<const uint32_t*>(key + at)),
                          V::LoadPair(reinterpret_cast<const uint32_t*>(q + at)));
      }
    }
    F sums = V::SumRows(dots);
    if (!kWhole) sums = V::KeepFirst(sums, static_cast<int>(left), V::Set(-__builtin_inff()));
    V::Store(&score[r][block * kLanes], sums);
  }
}

// Scores of one head to probabilities before normalisation; width is a multiple of two vectors.
template <class V>
void PartShares(const DecodePart& p, uint32_t row, uint32_t width, const float* score,
                bf16* share) {
  using F = typename V::F;
  constexpr uint32_t kLanes = V::kLanes;
  F lane_peak = V::Load(score);
  for (uint32_t c = kLanes; c < width; c += kLanes)
    lane_peak = V::Max(lane_peak, V::Load(score + c));
  const float peak = V::ReduceMax(lane_peak) * p.scale;
  const F scale = V::Set(p.scale);
  const F minus_peak = V::Set(-peak);
  F total = V::Zero();
  for (uint32_t c = 0; c < width; c += 2 * kLanes) {
    const F low = SoftmaxExp2<V>(V::Fma(V::Load(score + c), scale, minus_peak));
    const F high = SoftmaxExp2<V>(V::Fma(V::Load(score + c + kLanes), scale, minus_peak));
    total = V::Add(total, V::Add(low, high));
    V::StoreBf16Two(share + c, low, high);
  }
  p.max[row] = peak;
  V::Store(p.sum + size_t{row} * kLanes, total);
}

// Sums of the part's values for R heads from `row` on.
template <class V, int R, uint32_t kDim>
void WeighValues(const DecodePart& p, uint32_t row, const bf16 (*share)[kDecodePartTokens]) {
  using F = typename V::F;
  constexpr uint32_t kLanes = V::kLanes;
  constexpr uint32_t kColumns = 4 * kLanes;  // their sums stay in registers
  alignas(kAlign) static constexpr bf16 kNothing[kColumns] = {};
  const uint32_t blocks = (p.count + kLanes - 1) / kLanes;
  for (uint32_t column = 0; column < kDim; column += kColumns) {
    F acc[R][4];
    for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = acc[r][2] = acc[r][3] = V::Zero();
    const bool fetches = row == 0 && column == 0;
    for (uint32_t b = 0; b < blocks; ++b) {
      const bf16* values = p.blocks[blocks + b] + column;
      const bf16* fetch = p.blocks[blocks + b + kFetchBlocks];
      const uint32_t left = p.count - b * kLanes;
      const uint32_t keys = left < kLanes ? left : kLanes;
      for (uint32_t i = 0; i < keys; i += 2) {
        const bf16* even = values + size_t{i} * kDim;
        const bf16* odd = i + 1 < keys ? even + kDim : kNothing;
        if (fetches) FetchRows<kDim>(fetch, i, 2);
        typename V::Pair w[4];
        V::LoadInterleaved(even, odd, w[0], w[1]);
        V::LoadInterleaved(even + 2 * kLanes, odd + 2 * kLanes, w[2], w[3]);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const typename V::Pair x = V::BroadcastPair(PairBits(&share[row + r][b * kLanes + i]));
          for (int c = 0; c < 4; ++c) acc[r][c] = V::Dot2(acc[r][c], w[c], x);
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      float* to = p.acc + size_t{row + r} * kDim + column;
      for (uint32_t c = 0; c < 4; ++c) V::Store(to + c * kLanes, acc[r][c]);
    }
  }
}

template <class V, uint32_t kDim>
void DecodeKernelOf(const DecodePart& p) {
  constexpr uint32_t kLanes = V::kLanes;
  alignas(kAlign) float score[kDecodeHeads][kDecodePartTokens];
  alignas(kAlign) bf16 share[kDecodeHeads][kDecodePartTokens];
  const uint32_t whole = p.count / kLanes;
  const uint32_t blocks = (p.count + kLanes - 1) / kLanes;
  for (uint32_t b = 0; b < whole; ++b) BlockScores<V, kDim, true>(p, b, kLanes, score);
  if (whole < blocks) BlockScores<V, kDim, false>(p, whole, p.count - whole * kLanes, score);
  const uint32_t width = (blocks + 1) / 2 * 2 * kLanes;
  for (uint32_t r = 0; r < p.rows; ++r) {
    for (uint32_t i = 0; i < p.skip; ++i) score[r][i] = -__builtin_inff();
    if (blocks % 2 != 0) V::Store(&score[r][blocks * kLanes], V::Set(-__builtin_inff()));
    PartShares<V>(p, r, width, score[r], share[r]);
  }
  uint32_t row = 0;
  for (; row + 4 <= p.rows; row += 4) WeighValues<V, 4, kDim>(p, row, share);
  switch (p.rows - row) {
    case 3:
      return WeighValues<V, 3, kDim>(p, row, share);
    case 2:
      return WeighValues<V, 2, kDim>(p, row, share);
    case 1:
      return WeighValues<V, 1, kDim>(p, row, share);
    default:
      return;
  }
}

template <class V>
void DecodeKernel(const DecodePart& p) {
  if (p.head_dim == 64) return DecodeKernelOf<V, 64>(p);
  DecodeKernelOf<V, 128>(p);
}
