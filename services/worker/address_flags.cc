#include "services/worker/address_flags.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "services/base/default_addresses.h"
#include "services/grpc/insecure_tcp_flag.h"
#include "services/metrics/listen_flag.h"
#include "services/runtime/flags.h"
#include "services/runtime/health_flag.h"
#include "services/runtime/listen_address.h"
#include "services/runtime/tls_flags.h"

ABSL_FLAG(std::string, manager, folio::DefaultManagerAddress(),
          "gRPC address of the manager on this node, unix:/path, or host:port without encryption");
ABSL_FLAG(std::string, pool, "",
          "the pool of the manager to join, one of its --pools; if empty, its only one");
ABSL_FLAG(std::vector<std::string>, listen, {folio::DefaultWorkerAddress()},
          "gRPC addresses, unix:/path or host:port; several with commas or by giving it again");

namespace folio::worker {

absl::Status ReadAddressFlags(WorkerFlags* flags) {
  auto listen = ParseListenFlag("listen", absl::GetFlag(FLAGS_listen));
  if (!listen.ok()) return listen.status();
  flags->listen = *std::move(listen);
  auto health_listen = ReadHealthListen(flags->listen);
  if (!health_listen.ok()) return health_listen.status();
  flags->health_listen = *std::move(health_listen);
  std::vector<ListenAddress> grpc = flags->listen;
  grpc.insert(grpc.end(), flags->health_listen.begin(), flags->health_listen.end());
  auto metrics_listen = metrics::ReadMetricsListen(grpc);
  if (!metrics_listen.ok()) return metrics_listen.status();
  flags->metrics_listen = *std::move(metrics_listen);
  auto tls = ReadTlsFlags();
  if (!tls.ok()) return tls.status();
  flags->tls = *std::move(tls);
  flags->insecure_tcp = InsecureTcpAllowed();
  if (absl::Status s = CheckPlainTcp("listen", flags->listen, flags->tls); !s.ok()) return s;
  const std::string manager = absl::GetFlag(FLAGS_manager);
  auto address = ParseListenAddress(manager);
  if (!address.ok()) return BadFlag("manager", manager, address.status().message());
  flags->serving.manager = address->ToString();
  flags->serving.pool = absl::GetFlag(FLAGS_pool);
  return absl::OkStatus();
}

}  // namespace folio::worker
