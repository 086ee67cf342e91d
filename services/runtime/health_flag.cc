#include "services/runtime/health_flag.h"

#include <string>

#include "absl/flags/flag.h"
#include "services/runtime/flags.h"

ABSL_FLAG(std::vector<std::string>, health_listen, {},
          "addresses like those of --listen that serve grpc.health.v1 and nothing else, for the "
          "probes of an orchestrator, such as 0.0.0.0:7001");

namespace folio {

absl::StatusOr<std::vector<ListenAddress>> ReadHealthListen(
    const std::vector<ListenAddress>& taken) {
  const std::vector<std::string> given = absl::GetFlag(FLAGS_health_listen);
  if (given.empty()) return std::vector<ListenAddress>();
  auto parsed = ParseListenFlag("health_listen", given);
  if (!parsed.ok()) return parsed.status();
  for (const ListenAddress& address : *parsed) {
    for (const ListenAddress& other : taken) {
      if (address.port == 0 && !address.is_unix()) continue;
      if (address.ToString() != other.ToString()) continue;
      return BadFlag("health_listen", address.ToString(), "is a --listen address; choose another");
    }
  }
  return parsed;
}

}  // namespace folio
