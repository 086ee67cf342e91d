// ReadCommon reads the fields that chats and completions share: sampling, lengths, stops, formats,
// the cache, and how the answer is sent.
#ifndef FOLIO_SERVICES_GATEWAY_OPENAI_COMMON_FIELDS_H_
#define FOLIO_SERVICES_GATEWAY_OPENAI_COMMON_FIELDS_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "folio/v1/inference.pb.h"
#include "services/gateway/openai/call.h"
#include "services/gateway/openai/field_reader.h"

namespace folio::gateway {

inline constexpr int64_t kMost32 = std::numeric_limits<uint32_t>::max();
// The number above it asks the worker for all that the context leaves.
inline constexpr int64_t kMostTokens = kMost32 - 1;
inline constexpr uint64_t kMostChoiceBytes = 256 << 20;  // of all choices together
inline constexpr int64_t kMostTop = 20;                  // as many candidates as a worker gives

// Fills in the call and `request`, of which each choice is a copy. Returns how many choices each
// prompt has. Errors are the reader's.
int64_t ReadCommon(FieldReader& fields, Call* call, folio::v1::GenerateRequest* request);

// `response_format`, `structured_outputs` and the guided fields of vLLM.
void ReadFormat(FieldReader& fields, folio::v1::GenerateRequest* request);

// The object `cache`: a policy as folioctl writes it, a budget, and what else CacheOptions has.
void ReadCache(FieldReader& fields, Call* call, folio::v1::GenerateRequest* request);

// Adds `n` choices. Each gets a seed of its own if the request has one. INVALID_ARGUMENT: they are
// more than the gateway keeps.
absl::Status AddChoices(const folio::v1::GenerateRequest& request, int64_t n, Call* call);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_OPENAI_COMMON_FIELDS_H_
