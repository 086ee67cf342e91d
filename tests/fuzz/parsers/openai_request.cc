#include <cstdint>
#include <cstdlib>

#include "services/gateway/openai/call.h"
#include "services/gateway/openai/json_text.h"

// The fields of a request of /v1/completions, or of /v1/chat/completions behind an empty line. What
// was read can be sent to a worker.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view text(reinterpret_cast<const char*>(data), size);
  const bool chat = !text.empty() && text[0] == '\n';
  const auto body = folio::gateway::ParseObject(text);
  if (!body.ok()) return 0;
  const auto call = chat ? folio::gateway::ReadChat(*body) : folio::gateway::ReadCompletion(*body);
  if (!call.ok()) return 0;
  if (call->choices.empty() || call->choices.size() % call->per_prompt != 0) std::abort();
  for (const auto& choice : call->choices) {
    folio::v1::GenerateRequest read;
    if (!read.ParseFromString(choice.SerializeAsString())) std::abort();
  }
  return 0;
}
