// This header bounds the requests of a session, so that a manager need not take messages of any
// size. A worker keeps its requests below these limits, and tests/wire computes the largest ones.
#ifndef FOLIO_SERVICES_WIRE_SESSION_LIMITS_H_
#define FOLIO_SERVICES_WIRE_SESSION_LIMITS_H_

#include <cstddef>

namespace folio::wire {

// The longest prompt of a sequence, in tokens. The ids of a vocabulary have at most 24 bits, so
// they take at most 4 bytes each.
inline constexpr size_t kMaxPromptTokens = size_t{4} << 20;

// A serialised CacheOptions. The longest valid one has a budget for each of 1,024 layers.
inline constexpr size_t kMaxCacheOptionsBytes = size_t{16} << 10;

// The largest SessionRequest. It has one sequence of the longest prompt to open, or the commits of
// 1,024 sequences that have filled a page in each of 1,024 layers.
inline constexpr size_t kMaxSessionRequestBytes = size_t{17} << 20;

// A request to open sequences that has so many bytes gets no more of them.
inline constexpr size_t kOpenBatchBytes = size_t{4} << 20;

}  // namespace folio::wire

#endif  // FOLIO_SERVICES_WIRE_SESSION_LIMITS_H_
