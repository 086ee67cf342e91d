// MetricsServer answers Prometheus over HTTP at the path /metrics, in its text format.
//
// It has threads of its own, so a slow reader delays neither gRPC nor a step. There is neither
// encryption nor authentication: listen on an address that only Prometheus reaches.
#ifndef FOLIO_SERVICES_METRICS_METRICS_SERVER_H_
#define FOLIO_SERVICES_METRICS_METRICS_SERVER_H_

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/runtime/listen_address.h"

namespace folio::metrics {

// Serves from Start until destruction. Thread-safe.
class MetricsServer {
 public:
  // Serves `sources`, whose Collect is called from any thread, and the metrics of the process,
  // which is named `program`. Also logs each address. UNAVAILABLE if one cannot be listened on.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const std::vector<ListenAddress>& listen, const std::string& program,
      std::vector<std::shared_ptr<prometheus::Collectable>> sources);

  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // The addresses that are listened on, with the ports that were chosen for 0.
  const std::vector<ListenAddress>& addresses() const { return addresses_; }

 private:
  MetricsServer() = default;
  absl::Status Listen(ListenAddress address);

  std::vector<std::shared_ptr<prometheus::Collectable>> sources_;  // exposers hold weak pointers
  std::vector<std::unique_ptr<prometheus::Exposer>> exposers_;     // one for each address
  std::vector<ListenAddress> addresses_;
};

}  // namespace folio::metrics

#endif  // FOLIO_SERVICES_METRICS_METRICS_SERVER_H_
