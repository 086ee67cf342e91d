// This file holds kernels over single rows, for any vector type V. It is included inside the
// anonymous namespace of a file that is compiled for one instruction set.

template <class V>
void EmbedKernel(const bf16* in, float* out, size_t n) {
  size_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) V::Store(out + i, V::LoadBf16(in + i));
  if (const int rest = static_cast<int>(n - i); rest > 0) {
    V::StoreFirst(out + i, rest, V::LoadBf16First(in + i, rest));
  }
}

template <class V>
void RmsNormKernel(const float* x, const float* weight, float eps, size_t n, bf16* out) {
  constexpr size_t kLanes = V::kLanes;
  typename V::F sums[4] = {V::Zero(), V::Zero(), V::Zero(), V::Zero()};
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int s = 0; s < 4; ++s) {
      const typename V::F v = V::Load(x + i + s * kLanes);
      sums[s] = V::Fma(v, v, sums[s]);
    }
  }
  for (; i + kLanes <= n; i += kLanes) {
    const typename V::F v = V::Load(x + i);
    sums[0] = V::Fma(v, v, sums[0]);
  }
  const int rest = static_cast<int>(n - i);
  if (rest > 0) {
    const typename V::F v = V::LoadFirst(x + i, rest);
    sums[1] = V::Fma(v, v, sums[1]);
  }
  const float sum = V::ReduceAdd(V::Add(V::Add(sums[0], sums[1]), V::Add(sums[2], sums[3])));
  const typename V::F scale = V::Set(1.0f / __builtin_sqrtf(sum / static_cast<float>(n) + eps));
  for (i = 0; i + kLanes <= n; i += kLanes) {
    V::StoreBf16(out + i, V::Mul(V::Mul(V::Load(x + i), scale), V::Load(weight + i)));
  }
  if (rest > 0) {
    const typename V::F v = V::Mul(V::LoadFirst(x + i, rest), scale);
    V::StoreBf16First(out + i, rest, V::Mul(v, V::LoadFirst(weight + i, rest)));
  }
}

// Sum of squares of the values that were just stored.
template <class V>
float StoredSquares(const bf16* p, uint32_t n) {
  typename V::F sum = V::Zero();
  uint32_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) {
    const typename V::F v = V::LoadBf16(p + i);
    sum = V::Fma(v, v, sum);
  }
  if (i < n) {
    const typename V::F v = V::LoadBf16First(p + i, static_cast<int>(n - i));
    sum = V::Fma(v, v, sum);
  }
  return V::ReduceAdd(sum);
}

// Products are rounded before they are added, as in the plain family, so that keys round alike.
template <class V>
void RotateHead(const float* in, const float* cos, const float* sin, uint32_t half, bf16* out) {
  uint32_t i = 0;
  for (; i + V::kLanes <= half; i += V::kLanes) {
    const typename V::F a = V::Load(in + i);
    const typename V::F b = V::Load(in + half + i);
    const typename V::F c = V::Load(cos + i);
    const typename V::F s = V::Load(sin + i);
    V::StoreBf16(out + i, V::Sub(V::Mul(a, c), V::Mul(b, s)));
    V::StoreBf16(out + half + i, V::Add(V::Mul(b, c), V::Mul(a, s)));
  }
  if (const int rest = static_cast<int>(half - i); rest > 0) {
    const typename V::F a = V::LoadFirst(in + i, rest);
    const typename V::F b = V::LoadFirst(in + half + i, rest);
    const typename V::F c = V::LoadFirst(cos + i, rest);
    const typename V::F s = V::LoadFirst(sin + i, rest);
    V::StoreBf16First(out + i, rest, V::Sub(V::Mul(a, c), V::Mul(b, s)));
    V::StoreBf16First(out + half + i, rest, V::Add(V::Mul(b, c), V::Mul(a, s)));
  }
}

template <class V>
void RoundRow(const float* in, uint32_t n, bf16* out) {
  uint32_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) V::StoreBf16(out + i, V::Load(in + i));
  if (const int rest = static_cast<int>(n - i); rest > 0) {
    V::StoreBf16First(out + i, rest, V::LoadFirst(in + i, rest));
  }
}

template <class V>
void RopeAppendKernel(const RopeRow& row) {
  const uint32_t dim = row.head_dim;
  const float* in = row.qkv;
  for (uint32_t h = 0; h < row.heads; ++h, in += dim) {
    RotateHead<V>(in, row.cos, row.sin, dim / 2, row.q + size_t{h} * dim);
  }
  const float* value_in = in + size_t{row.kv_heads} * dim;
  for (uint32_t h = 0; h < row.kv_heads; ++h, in += dim, value_in += dim) {
    bf16* key = row.keys + h * row.head_stride;
    bf16* value = row.values + h * row.head_stride;
    RotateHead<V>(in, row.cos, row.sin, dim / 2, key);
    RoundRow<V>(value_in, dim, value);
    if (row.score == nullptr) continue;
    const float of = row.kind == ScoreKind::kInverseKeyNorm
                         ? 1.0f
                         : __builtin_sqrtf(StoredSquares<V>(value, dim));
    row.score[h] = of;
    if (row.kind == ScoreKind::kValueNorm) continue;
    const float k = __builtin_sqrtf(StoredSquares<V>(key, dim));
    row.score[h] = k != 0 ? of / k : of == 0 ? 0.0f : __FLT_MAX__;
  }
}
