#include "services/gateway/upstream_flags.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "services/base/default_addresses.h"
#include "services/runtime/flags.h"
#include "services/runtime/listen_address.h"
#include "services/runtime/tls_flags.h"

ABSL_FLAG(std::vector<std::string>, worker, {folio::DefaultWorkerAddress()},
          "gRPC addresses of workers of one manager, unix:/path or host:port; several with commas "
          "or by giving it again");
ABSL_FLAG(std::vector<std::string>, standby, {},
          "further workers of that manager, which get requests only while no other serves");
ABSL_FLAG(std::string, manager, folio::DefaultManagerAddress(),
          "the manager's address, unix:/path or host:port, whose state the console under /console "
          "shows; empty for no console");
ABSL_FLAG(std::vector<std::string>, model_name, {},
          "names under which clients ask for the model; empty for the name that the workers have");
ABSL_FLAG(int, worker_connections, 2,
          "connections to each worker, from 1 to 64, among which streams are dealt");
ABSL_FLAG(absl::Duration, health_interval, absl::Seconds(1),
          "how often each worker is asked whether it serves, from 100ms to 1m");
ABSL_FLAG(bool, upstream_tls, false,
          "encrypt connections by TCP to workers and the manager, with the system's authorities if "
          "none of the next four flags is given, each of which asks for it too");
ABSL_FLAG(
    std::string, upstream_tls_ca, "",
    "a file with authorities, as PEM, one of which has signed the certificates of workers and "
    "manager. It is read again when it changes, as are the next two");
ABSL_FLAG(
    std::string, upstream_tls_cert, "",
    "a file with the gateway's own certificate, as PEM, for workers and a manager that ask for "
    "one");
ABSL_FLAG(std::string, upstream_tls_key, "", "a file with the key of that certificate, as PEM");
ABSL_FLAG(std::string, upstream_tls_server_name, "",
          "the name in the certificates of workers and manager, if it is not the host of their "
          "addresses");

ABSL_FLAG(
    std::string, upstream_token_file, "",
    "a file with the gateway's token for workers and a manager that have --access. It needs a "
    "line there that gives it any tenant (*), and for the console the right view. It is read "
    "again when it changes");

namespace folio::gateway {
namespace {

absl::Status CheckAddresses(absl::string_view flag, const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses) {
    if (auto parsed = ParseListenAddress(address); !parsed.ok()) {
      return BadFlag(flag, address, parsed.status().message());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<client::TlsOptions>> ReadUpstreamTls() {
  client::TlsOptions tls = {.ca_file = absl::GetFlag(FLAGS_upstream_tls_ca),
                            .cert_file = absl::GetFlag(FLAGS_upstream_tls_cert),
                            .key_file = absl::GetFlag(FLAGS_upstream_tls_key),
                            .server_name = absl::GetFlag(FLAGS_upstream_tls_server_name)};
  if (absl::Status s = CheckTlsPair("upstream_", tls.cert_file, tls.key_file); !s.ok()) return s;
  if (!absl::GetFlag(FLAGS_upstream_tls) && tls.ca_file.empty() && tls.cert_file.empty() &&
      tls.server_name.empty()) {
    return std::nullopt;
  }
  return tls;
}

}  // namespace

absl::Status ReadUpstreamFlags(GatewayFlags* flags) {
  WorkerSetOptions& workers = flags->workers;
  workers.workers = absl::GetFlag(FLAGS_worker);
  workers.standby = absl::GetFlag(FLAGS_standby);
  workers.aliases = absl::GetFlag(FLAGS_model_name);
  workers.health_interval = absl::GetFlag(FLAGS_health_interval);
  workers.connections = static_cast<size_t>(absl::GetFlag(FLAGS_worker_connections));
  flags->manager = absl::GetFlag(FLAGS_manager);
  for (const absl::Status& status :
       {CheckFlagRange("worker_connections", absl::GetFlag(FLAGS_worker_connections), 1, 64),
        CheckFlagRange("health_interval", workers.health_interval, absl::Milliseconds(100),
                       absl::Minutes(1)),
        CheckAddresses("worker", workers.workers), CheckAddresses("standby", workers.standby)}) {
    if (!status.ok()) return status;
  }
  if (auto parsed = ParseListenAddress(flags->manager); !flags->manager.empty() && !parsed.ok()) {
    return BadFlag("manager", flags->manager, parsed.status().message());
  }
  if (workers.workers.empty()) return BadFlag("worker", "", "needs at least one address");
  auto tls = ReadUpstreamTls();
  if (!tls.ok()) return tls.status();
  workers.tls = *std::move(tls);
  workers.token_file = absl::GetFlag(FLAGS_upstream_token_file);
  return absl::OkStatus();
}

}  // namespace folio::gateway
