#include <cstdint>
#include <cstdlib>

#include "services/access/access_rules.h"
#include "services/gateway/api_keys.h"

// The files that --access and --api_keys name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto rules = folio::access::ParseAccessRules(text); rules.ok()) {
    for (const auto& token : rules->tokens) {
      if (token.hash.size() != 32) std::abort();
    }
  }
  if (const auto keys = folio::gateway::ParseApiKeys(text); keys.ok()) {
    for (const auto& key : *keys) {
      if (key.hash.size() != 32 || key.tenant.size() > 64) std::abort();
    }
  }
  return 0;
}
