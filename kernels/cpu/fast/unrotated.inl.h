// This file holds the kernels that undo the rotation (RoPE) of keys, for any vector type V. It is
// included after rows.inl.h, inside the anonymous namespace of a file that is compiled for one
// instruction set.

// A piece of a key has elements of its first half, and the elements of the second half that they
// were rotated with.
template <class V>
struct UnrotatedPair {
  typename V::F low, high;
  typename V::F squares;  // the turn changes no length

  UnrotatedPair(typename V::F a, typename V::F b, typename V::F cos, typename V::F sin)
      : low(V::Fma(a, cos, V::Mul(b, sin))),
        high(V::Sub(V::Mul(b, cos), V::Mul(a, sin))),
        squares(V::Fma(a, a, V::Mul(b, b))) {}
  static UnrotatedPair At(const UnrotatedKeys& t, const bf16* key, uint32_t i) {
    return {V::LoadBf16(key + i), V::LoadBf16(key + t.head_dim / 2 + i), V::Load(t.cos + i),
            V::Load(t.sin + i)};
  }
  // The first n lanes; the others are zero.
  static UnrotatedPair First(const UnrotatedKeys& t, const bf16* key, uint32_t i, int n) {
    return {V::LoadBf16First(key + i, n), V::LoadBf16First(key + t.head_dim / 2 + i, n),
            V::LoadFirst(t.cos + i, n), V::LoadFirst(t.sin + i, n)};
  }
};

// 1 / ||key||, or 0 where its squares sum to less than FLT_MIN.
inline float InverseLength(float squares) {
  return squares < __FLT_MIN__ ? 0.0f : 1.0f / __builtin_sqrtf(squares);
}

template <class V>
float UnrotatedSquares(const UnrotatedKeys& t, const bf16* key) {
  const uint32_t half = t.head_dim / 2;
  typename V::F squares = V::Zero();
  uint32_t i = 0;
  for (; i + V::kLanes <= half; i += V::kLanes) {
    squares = V::Add(squares, UnrotatedPair<V>::At(t, key, i).squares);
  }
  if (const int rest = static_cast<int>(half - i); rest > 0) {
    squares = V::Add(squares, UnrotatedPair<V>::First(t, key, i, rest).squares);
  }
  return V::ReduceAdd(squares);
}

template <class V>
void AddUnrotatedKernel(const UnrotatedKeys& t, float* sums) {
  const uint32_t half = t.head_dim / 2;
  for (uint32_t head = 0; head < t.heads; ++head) {
    const bf16* key = t.keys + head * t.stride;
    float* low = sums + size_t{head} * t.head_dim;
    float* high = low + half;
    const typename V::F inverse = V::Set(InverseLength(UnrotatedSquares<V>(t, key)));
    uint32_t i = 0;
    for (; i + V::kLanes <= half; i += V::kLanes) {
      const auto x = UnrotatedPair<V>::At(t, key, i);
      V::Store(low + i, V::Fma(x.low, inverse, V::Load(low + i)));
      V::Store(high + i, V::Fma(x.high, inverse, V::Load(high + i)));
    }
    if (const int rest = static_cast<int>(half - i); rest > 0) {
      const auto x = UnrotatedPair<V>::First(t, key, i, rest);
      V::StoreFirst(low + i, rest, V::Fma(x.low, inverse, V::LoadFirst(low + i, rest)));
      V::StoreFirst(high + i, rest, V::Fma(x.high, inverse, V::LoadFirst(high + i, rest)));
    }
  }
}

template <class V>
void ProjectUnrotatedKernel(const UnrotatedKeys& t, const float* directions, float* score) {
  const uint32_t half = t.head_dim / 2;
  for (uint32_t head = 0; head < t.heads; ++head) {
    const bf16* key = t.keys + head * t.stride;
    const float* low = directions + size_t{head} * t.head_dim;
    const float* high = low + half;
    typename V::F dot = V::Zero();
    typename V::F squares = V::Zero();
    uint32_t i = 0;
    for (; i + V::kLanes <= half; i += V::kLanes) {
      const auto x = UnrotatedPair<V>::At(t, key, i);
      squares = V::Add(squares, x.squares);
      dot = V::Fma(x.high, V::Load(high + i), V::Fma(x.low, V::Load(low + i), dot));
    }
    if (const int rest = static_cast<int>(half - i); rest > 0) {
      const auto x = UnrotatedPair<V>::First(t, key, i, rest);
      squares = V::Add(squares, x.squares);
      dot = V::Fma(x.high, V::LoadFirst(high + i, rest),
                   V::Fma(x.low, V::LoadFirst(low + i, rest), dot));
    }
    score[head] = V::ReduceAdd(dot) * InverseLength(V::ReduceAdd(squares));
  }
}
