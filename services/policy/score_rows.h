// These functions read rows of the score board, a token's scores each, for all decisions of scoring
// policies. They are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_POLICY_SCORE_ROWS_H_
#define FOLIO_SERVICES_POLICY_SCORE_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace folio::policy {

// The float32 mean of one token's scores, summed from the first to the last. Never NaN: a row with
// one, or with both infinities, is -inf. Large finite values do not overflow.
float TokenScore(absl::Span<const float> row);

// The TokenScore of `count` rows of `heads` floats that lie one after another, into `means`.
void RowMeans(const float* rows, uint32_t count, uint32_t heads, float* means);

// The SortKey of all scores of `count` such rows. Head h's keys go to keys[h * stride] and the
// places behind it, one a row.
void RowKeys(const float* rows, uint32_t count, uint32_t heads, int32_t* keys, size_t stride);

// Begins to read so many values, which are in no cache. Scores come from another device or core,
// and what is kept between two decisions was pushed out by the decisions for other sequences.
template <typename Value>
void Prefetch(const Value* values, size_t count) {
  constexpr size_t kLine = 64;
  const auto* bytes = reinterpret_cast<const char*>(values);
  for (size_t i = 0; i < count * sizeof(Value); i += kLine) __builtin_prefetch(bytes + i);
}

namespace internal {

// The same without wide vectors, for comparison.
void PlainRowMeans(const float* rows, uint32_t count, uint32_t heads, float* means);
void PlainRowKeys(const float* rows, uint32_t count, uint32_t heads, int32_t* keys, size_t stride);

}  // namespace internal
}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_SCORE_ROWS_H_
