// Keys turned back to where they were before RoPE, for any vector type V. Included after
// rows.inl.h, inside the anonymous namespace of a file compiled for one instruction set.

// 1 / ||key||, or 0 where its squares sum to less than FLT_MIN: the turn changes no length.
template <class V>
float InverseLength(const bf16* key, uint32_t head_dim) {
  const float squares = StoredSquares<V>(key, head_dim);
  return squares < __FLT_MIN__ ? 0.0f : 1.0f / __builtin_sqrtf(squares);
}

template <class V>
struct UnrotatedPair {
  typename V::F low, high;

  UnrotatedPair(typename V::F a, typename V::F b, typename V::F cos, typename V::F sin)
      : low(V::Fma(a, cos, V::Mul(b, sin))), high(V::Sub(V::Mul(b, cos), V::Mul(a, sin))) {}
  static UnrotatedPair At(const UnrotatedKey& k, uint32_t i) {
    return {V::LoadBf16(k.key + i), V::LoadBf16(k.key + k.head_dim / 2 + i), V::Load(k.cos + i),
            V::Load(k.sin + i)};
  }
  // The first n lanes; the others are zero.
  static UnrotatedPair First(const UnrotatedKey& k, uint32_t i, int n) {
    return {V::LoadBf16First(k.key + i, n), V::LoadBf16First(k.key + k.head_dim / 2 + i, n),
            V::LoadFirst(k.cos + i, n), V::LoadFirst(k.sin + i, n)};
  }
};

template <class V>
void AddUnrotatedKernel(const UnrotatedKey& k, float* sum) {
  const uint32_t half = k.head_dim / 2;
  float* high = sum + half;
  const typename V::F inverse = V::Set(InverseLength<V>(k.key, k.head_dim));
  uint32_t i = 0;
  for (; i + V::kLanes <= half; i += V::kLanes) {
    const auto x = UnrotatedPair<V>::At(k, i);
    V::Store(sum + i, V::Fma(x.low, inverse, V::Load(sum + i)));
    V::Store(high + i, V::Fma(x.high, inverse, V::Load(high + i)));
  }
  if (const int rest = static_cast<int>(half - i); rest > 0) {
    const auto x = UnrotatedPair<V>::First(k, i, rest);
    V::StoreFirst(sum + i, rest, V::Fma(x.low, inverse, V::LoadFirst(sum + i, rest)));
    V::StoreFirst(high + i, rest, V::Fma(x.high, inverse, V::LoadFirst(high + i, rest)));
  }
}

template <class V>
float ProjectUnrotatedKernel(const UnrotatedKey& k, const float* direction) {
  const uint32_t half = k.head_dim / 2;
  const float* high = direction + half;
  typename V::F dot = V::Zero();
  uint32_t i = 0;
  for (; i + V::kLanes <= half; i += V::kLanes) {
    const auto x = UnrotatedPair<V>::At(k, i);
    dot = V::Fma(x.high, V::Load(high + i), V::Fma(x.low, V::Load(direction + i), dot));
  }
  if (const int rest = static_cast<int>(half - i); rest > 0) {
    const auto x = UnrotatedPair<V>::First(k, i, rest);
    dot = V::Fma(x.high, V::LoadFirst(high + i, rest),
                 V::Fma(x.low, V::LoadFirst(direction + i, rest), dot));
  }
  return V::ReduceAdd(dot) * InverseLength<V>(k.key, k.head_dim);
}
