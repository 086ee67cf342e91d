#include "services/runtime/health_flag.h"

#include <string>

#include "absl/flags/flag.h"

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
  absl::Status status = CheckNotTaken("health_listen", *parsed, "listen", taken);
  if (!status.ok()) return status;
  return parsed;
}

}  // namespace folio
