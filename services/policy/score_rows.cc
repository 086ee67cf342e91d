#include "services/policy/score_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cmath>
#include <cstddef>
#include <limits>

#include "services/policy/key_search.h"
#include "services/policy/wide.h"

namespace folio::policy {
namespace {

// The sum of a row was not finite. It may have overflowed, so it is taken again in double.
float MeanInDouble(absl::Span<const float> row) {
  double sum = 0;
  for (const float score : row) sum += score;
  return std::isnan(sum) ? -std::numeric_limits<float>::infinity()
                         : static_cast<float>(sum / static_cast<double>(row.size()));
}

#if defined(__x86_64__)

constexpr uint32_t kLanes = 8;  // floats of a vector, each a row of its own

// Four scores of a row, and four of the row that is four further down.
FOLIO_WIDE inline __m256 TwoRows(const float* row) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row)),
                              _mm_loadu_ps(row + size_t{4} * kLanes), 1);
}

// Four heads of eight rows, turned so that each vector has one head's scores.
struct FourHeads {
  __m256 head[4];
};
FOLIO_WIDE inline FourHeads Turn(const float* rows) {
  const __m256 a = TwoRows(rows);
  const __m256 b = TwoRows(rows + kLanes);
  const __m256 c = TwoRows(rows + size_t{2} * kLanes);
  const __m256 d = TwoRows(rows + size_t{3} * kLanes);
  const __m256 ab_low = _mm256_unpacklo_ps(a, b);
  const __m256 cd_low = _mm256_unpacklo_ps(c, d);
  const __m256 ab_high = _mm256_unpackhi_ps(a, b);
  const __m256 cd_high = _mm256_unpackhi_ps(c, d);
  return {{_mm256_shuffle_ps(ab_low, cd_low, 0x44), _mm256_shuffle_ps(ab_low, cd_low, 0xEE),
           _mm256_shuffle_ps(ab_high, cd_high, 0x44), _mm256_shuffle_ps(ab_high, cd_high, 0xEE)}};
}

// Sums of eight rows of eight heads.
FOLIO_WIDE inline __m256 SumEightHeads(const float* rows) {
  const FourHeads low = Turn(rows);
  const FourHeads high = Turn(rows + kLanes / 2);
  // From +0 on, as TokenScore begins.
  __m256 sum = _mm256_setzero_ps() + low.head[0];
  sum += low.head[1];
  sum += low.head[2];
  sum += low.head[3];
  sum += high.head[0];
  sum += high.head[1];
  sum += high.head[2];
  sum += high.head[3];
  return sum;
}

// SortKey of eight scores.
FOLIO_WIDE inline void StoreKeys(__m256 scores, int32_t* keys) {
  alignas(32) float values[kLanes];
  _mm256_store_ps(values, scores);
  for (uint32_t i = 0; i < kLanes; ++i) keys[i] = SortKey(values[i]);
}

// The same for any number of heads.
FOLIO_WIDE inline __m256 SumHeads(const float* rows, uint32_t heads) {
  const auto stride = static_cast<int>(heads);
  const __m256i at =
      _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(stride));
  __m256 sum = _mm256_setzero_ps();
  for (uint32_t head = 0; head < heads; ++head) sum += _mm256_i32gather_ps(rows + head, at, 4);
  return sum;
}

FOLIO_WIDE void WideRowMeans(const float* rows, uint32_t count, uint32_t heads, float* means) {
  const __m256 divisor = _mm256_set1_ps(static_cast<float>(heads));
  uint32_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const float* group = rows + size_t{i} * heads;
    const __m256 sum = heads == kLanes ? SumEightHeads(group) : SumHeads(group, heads);
    _mm256_storeu_ps(means + i, sum / divisor);
    // The difference is NaN where the sum is not finite.
    const __m256 finite = _mm256_cmp_ps(sum - sum, _mm256_setzero_ps(), _CMP_EQ_OQ);
    if (_mm256_movemask_ps(finite) == 0xFF) [[likely]] {
      continue;
    }
    internal::PlainRowMeans(group, kLanes, heads, means + i);
  }
  internal::PlainRowMeans(rows + size_t{i} * heads, count - i, heads, means + i);
}

FOLIO_WIDE void WideRowKeys(const float* rows, uint32_t count, uint32_t heads, int32_t* keys,
                            size_t stride) {
  uint32_t i = 0;
  for (; heads == kLanes && i + kLanes <= count; i += kLanes) {
    for (uint32_t half = 0; half < kLanes; half += 4) {
      const FourHeads turned = Turn(rows + size_t{i} * heads + half);
      for (uint32_t h = 0; h < 4; ++h) StoreKeys(turned.head[h], keys + (half + h) * stride + i);
    }
  }
  internal::PlainRowKeys(rows + size_t{i} * heads, count - i, heads, keys + i, stride);
}

#else

void WideRowKeys(const float* rows, uint32_t count, uint32_t heads, int32_t* keys, size_t stride) {
  internal::PlainRowKeys(rows, count, heads, keys, stride);
}
void WideRowMeans(const float* rows, uint32_t count, uint32_t heads, float* means) {
  internal::PlainRowMeans(rows, count, heads, means);
}

#endif

}  // namespace

float TokenScore(absl::Span<const float> row) {
  float sum = 0;
  for (const float score : row) sum += score;
  if (std::isfinite(sum)) [[likely]] {
    return sum / static_cast<float>(row.size());
  }
  return MeanInDouble(row);
}

void RowMeans(const float* rows, uint32_t count, uint32_t heads, float* means) {
  Wide() ? WideRowMeans(rows, count, heads, means)
         : internal::PlainRowMeans(rows, count, heads, means);
}

void RowKeys(const float* rows, uint32_t count, uint32_t heads, int32_t* keys, size_t stride) {
  Wide() ? WideRowKeys(rows, count, heads, keys, stride)
         : internal::PlainRowKeys(rows, count, heads, keys, stride);
}

void internal::PlainRowMeans(const float* rows, uint32_t count, uint32_t heads, float* means) {
  for (uint32_t i = 0; i < count; ++i) means[i] = TokenScore({rows + size_t{i} * heads, heads});
}

void internal::PlainRowKeys(const float* rows, uint32_t count, uint32_t heads, int32_t* keys,
                            size_t stride) {
  for (uint32_t head = 0; head < heads; ++head) {
    int32_t* own = keys + head * stride;
    for (uint32_t i = 0; i < count; ++i) own[i] = SortKey(rows[size_t{i} * heads + head]);
  }
}

}  // namespace folio::policy
