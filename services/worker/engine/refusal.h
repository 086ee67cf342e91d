// A refusal reason is a short word that tells apart errors of one code, for metrics. It travels
// with the status inside the worker, and clients do not get it.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_REFUSAL_H_
#define FOLIO_SERVICES_WORKER_ENGINE_REFUSAL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace folio::worker {

inline constexpr char kQueueFull[] = "queue_full";          // --max_queue others wait
inline constexpr char kQueueTimeout[] = "queue_timeout";    // it waited for --queue_timeout
inline constexpr char kNeverFits[] = "never_fits";          // an empty pool has too little room
inline constexpr char kTokenizerFull[] = "tokenizer_full";  // too many wait to be tokenized
inline constexpr char kOtherReason[] = "other";

// The status, which is not OK, with its reason.
inline absl::Status WithReason(absl::Status status, absl::string_view reason) {
  status.SetPayload("folio.refusal_reason", absl::Cord(reason));
  return status;
}

// kOtherReason if it has none.
inline std::string ReasonOf(const absl::Status& status) {
  const auto reason = status.GetPayload("folio.refusal_reason");
  return reason.has_value() ? std::string(*reason) : kOtherReason;
}

// The manager's refusal of a sequence that may not fit later either.
inline absl::Status RefusedForGood(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? WithReason(status, kNeverFits) : status;
}

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_REFUSAL_H_
