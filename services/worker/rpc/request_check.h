// These functions turn a client's message into a checked request. Every refusal is INVALID_ARGUMENT
// and begins with the field's name. Policy and budget pass through unread, because only the manager
// can judge them.
#ifndef FOLIO_SERVICES_WORKER_RPC_REQUEST_CHECK_H_
#define FOLIO_SERVICES_WORKER_RPC_REQUEST_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "folio/v1/inference.pb.h"
#include "services/model/tokenizer/tokenizer.h"
#include "services/worker/engine/request_queue.h"

namespace folio::worker {

// ModelLimits is the model as far as requests are checked against it. Borrows the tokenizer.
struct ModelLimits {
  const model::Tokenizer* tokenizer = nullptr;
  uint32_t vocab = 0;
  uint32_t context = 0;
  // Whether special tokens that are written in the messages of a chat are recognised. Otherwise
  // they are ordinary text, and no message can forge a turn.
  bool special_tokens_in_chat = false;
  std::string fingerprint = {};  // see ModelLayout
};

inline constexpr int kMaxChatMessages = 1024;
inline constexpr uint32_t kDefaultMaxTokens = 256;
inline constexpr uint32_t kRestOfContext = 0xffffffff;  // max_tokens that asks for all of it
inline constexpr size_t kResumeTokenBytes = 16;

// The most bytes that a message of a client may have: the longest text that is accepted, and room
// for the rest of the request.
size_t MaxRequestBytes(const ModelLimits& limits);

// More tokens than the model's context are refused before anything is done for each of them.
absl::Status CheckTokenCount(absl::string_view field, size_t count, const ModelLimits& limits);

// These are inside the vocabulary, and no more than the model's context.
absl::StatusOr<std::vector<TokenId>> CheckIds(
    const google::protobuf::RepeatedField<uint32_t>& given, absl::string_view field,
    const ModelLimits& limits);

// Both fill in `arrival`. CheckGenerate also fills in a resume token and, if none is given, a
// random seed. Thread-safe.
absl::StatusOr<SequenceRequest> CheckGenerate(const folio::v1::GenerateRequest& request,
                                              const ModelLimits& limits);
absl::StatusOr<SequenceRequest> CheckScore(const folio::v1::ScoreRequest& request,
                                           const ModelLimits& limits);

// The tokens of text, ids or chat. `field` names the input in refusals, and `rendered` gets the
// text of a chat.
absl::StatusOr<std::vector<TokenId>> TokensOf(const folio::v1::Input& input,
                                              absl::string_view field, const ModelLimits& limits,
                                              std::string* rendered = nullptr);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_REQUEST_CHECK_H_
