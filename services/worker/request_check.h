// From a client's message to a checked request. Every refusal is INVALID_ARGUMENT and begins with
// the field's name. What only the manager can judge (policy, budget) passes through unseen.
#ifndef FOLIO_SERVICES_WORKER_REQUEST_CHECK_H_
#define FOLIO_SERVICES_WORKER_REQUEST_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "folio/v1/inference.pb.h"
#include "services/model/tokenizer.h"
#include "services/worker/request_queue.h"

namespace folio::worker {

// What requests are checked against. Borrows the tokenizer.
struct ModelLimits {
  const model::Tokenizer* tokenizer = nullptr;
  uint32_t vocab = 0;
  uint32_t context = 0;
};

inline constexpr uint32_t kMaxTopLogprobs = 20;
inline constexpr int kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 256;
inline constexpr int kMaxChatMessages = 1024;
inline constexpr uint32_t kDefaultMaxTokens = 256;
inline constexpr size_t kResumeTokenBytes = 16;

// `arrival`, a resume token and, when no seed is given, a seed of our choice are filled in.
// Thread-safe.
absl::StatusOr<SequenceRequest> CheckGenerate(const folio::v1::GenerateRequest& request,
                                              const ModelLimits& limits);
absl::StatusOr<SequenceRequest> CheckScore(const folio::v1::ScoreRequest& request,
                                           const ModelLimits& limits);

// Text or chat as tokens; `rendered` gets a chat's text. `field` is for messages.
absl::StatusOr<std::vector<TokenId>> TokensOf(const folio::v1::Input& input,
                                              absl::string_view field, const ModelLimits& limits,
                                              std::string* rendered = nullptr);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_REQUEST_CHECK_H_
