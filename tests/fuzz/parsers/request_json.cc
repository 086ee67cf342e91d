#include <cstdint>
#include <string>

#include "services/gateway/openai/json_text.h"

// What was read can be written and read again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = folio::gateway::ParseObject(text);
  if (value.ok() && !folio::gateway::ParseObject(folio::gateway::JsonText(*value)).ok()) {
    std::abort();
  }
  return 0;
}
