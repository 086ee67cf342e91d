#include "services/metrics/listen_flag.h"

#include <string>

#include "absl/flags/flag.h"
#include "services/runtime/flags.h"

ABSL_FLAG(std::vector<std::string>, metrics_listen, {},
          "addresses host:port that serve metrics to Prometheus over HTTP, at the path /metrics, "
          "such as 127.0.0.1:7003; if empty, metrics are not served");

namespace folio::metrics {

absl::StatusOr<std::vector<ListenAddress>> ReadMetricsListen(
    const std::vector<ListenAddress>& taken) {
  const std::vector<std::string> given = absl::GetFlag(FLAGS_metrics_listen);
  if (given.empty()) return std::vector<ListenAddress>();
  auto parsed = ParseListenFlag("metrics_listen", given);
  if (!parsed.ok()) return parsed.status();
  for (const ListenAddress& address : *parsed) {
    const std::string text = address.ToString();
    if (address.is_unix()) {
      return BadFlag("metrics_listen", text,
                     "is a Unix socket, which Prometheus cannot read; give host:port");
    }
    for (const ListenAddress& other : taken) {
      if (address.port == 0 || other.ToString() != text) continue;
      return BadFlag("metrics_listen", text, "is an address of gRPC already; choose another port");
    }
  }
  return parsed;
}

}  // namespace folio::metrics
