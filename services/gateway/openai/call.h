// Call is a request for text as the gateway carries it out. ReadChat and ReadCompletion make it of
// the JSON that a client has sent.
#ifndef FOLIO_SERVICES_GATEWAY_OPENAI_CALL_H_
#define FOLIO_SERVICES_GATEWAY_OPENAI_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "folio/v1/inference.pb.h"
#include "services/gateway/openai/json_map.h"

namespace folio::gateway {

// Choices of one request, over all of its prompts.
inline constexpr int64_t kMostChoices = 128;

// How tool calls are found in an answer.
enum class ToolParsing : uint8_t {
  kNone,
  kTagged,  // in tags, see tool_calls.h
  kForced,  // the whole answer is the arguments of the function that the client named
  kAny,     // the whole answer is an object with the name of a function and its arguments
};

struct Call {
  bool chat = false;
  std::string model;                                // as the client names it, or empty
  std::vector<folio::v1::GenerateRequest> choices;  // in the order of their index
  size_t per_prompt = 1;                            // choices of each prompt
  bool stream = false;
  bool include_usage = false;     // a last chunk has the usage
  bool continuous_usage = false;  // each chunk has it
  std::optional<uint32_t> top_logprobs;
  bool show_cache = false;   // the client gave cache options, and hears of the cache
  bool report_kept = false;  // and which positions stayed
  std::string session;       // requests of one session go to one worker; empty for none
  ToolParsing tools = ToolParsing::kNone;
  std::string forced_tool;     // of kForced
  bool parallel_tools = true;  // an answer may have several calls
};

// Errors name the field. Limits that only a worker knows, such as the size of the vocabulary, are
// left to it.
absl::StatusOr<Call> ReadChat(const Json& body);
absl::StatusOr<Call> ReadCompletion(const Json& body);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_OPENAI_CALL_H_
