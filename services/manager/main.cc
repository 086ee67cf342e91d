// The program folio-manager owns the pages of a node's KV cache.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/base/clock.h"
#include "services/manager/flags.h"
#include "services/manager/memory/device_memory.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/server.h"
#include "services/runtime/flags.h"
#include "services/runtime/listen_address.h"
#include "services/runtime/logging.h"
#include "services/runtime/service_manager.h"
#include "services/runtime/signals.h"
#include "services/runtime/version.h"

namespace {

constexpr absl::string_view kUsage =
    "folio-manager [flags]\n\n"
    "Owns the pages of the KV cache. It hands pool memory to workers, admits sequences and "
    "decides\n"
    "what is evicted. SIGTERM or SIGINT lets running sequences finish. A second one ends at once.";

absl::Status MakeDirectories(const folio::manager::ServerOptions& options) {
  for (const folio::ListenAddress& address : options.listen) {
    if (!address.is_unix()) continue;
    if (auto status = folio::MakeSocketDirectory(address.unix_path); !status.ok()) return status;
  }
  return folio::MakeSocketDirectory(options.export_socket);
}

absl::StatusOr<std::unique_ptr<folio::manager::PageSource>> MakePageSource(
    const std::vector<int>& devices) {
  if (devices.empty()) return std::make_unique<folio::manager::HostMemory>();
  return folio::manager::DeviceMemory::Open(devices, {});
}

int Run() {
  auto flags = folio::manager::ReadFlags();
  if (!flags.ok()) folio::ExitBadFlag("folio-manager", flags.status());
  const folio::manager::PoolSize& pool_size = flags->server.pool_size;
  folio::TerminationSignals signals;  // before any thread starts, and drivers start some
  auto inherited = folio::InheritedSockets::Take();
  if (!inherited.ok()) {
    folio::log::Error("cannot start", {{"reason", inherited.status()}});
    return 1;
  }
  flags->server.inherited = &*inherited;
  const auto pages = MakePageSource(flags->devices);
  if (!pages.ok()) {
    folio::log::Error("cannot start", {{"reason", pages.status()}});
    return 1;
  }
  if (absl::Status status = (*pages)->CheckSize(pool_size); !status.ok()) {
    folio::ExitBadFlag(
        "folio-manager",
        folio::BadFlag("pool_bytes", folio::manager::FormatPoolSize(pool_size), status.message()));
  }
  flags->server.pages = pages->get();
  const folio::log::Field size_field =
      pool_size.is_share()
          ? folio::log::Field("pool_bytes", folio::manager::FormatPoolSize(pool_size))
          : folio::log::Field("pool_bytes", pool_size.bytes);
  const folio::RealClock clock;
  flags->server.clock = &clock;

  if (absl::Status status = MakeDirectories(flags->server); !status.ok()) {
    folio::log::Error("cannot start", {{"reason", status}});
    return 1;
  }
  auto server = folio::manager::Server::Start(flags->server);
  if (!server.ok()) {
    folio::log::Error("cannot start", {{"reason", server.status()}});
    return 1;
  }
  folio::log::Info("folio-manager started", {{"version", folio::BuildDescription()},
                                             {"device", (*pages)->device()},
                                             size_field,
                                             {"lease_ttl", flags->server.lease_ttl},
                                             {"orphan_ttl", flags->server.orphan_ttl},
                                             {"export_socket", flags->server.export_socket}});
  for (const folio::ListenAddress& address : (*server)->addresses()) {
    folio::log::Info("listening", {{"address", address.ToString()}});
  }
  for (const folio::ListenAddress& address : (*server)->health_addresses()) {
    folio::log::Info("listening for health checks", {{"address", address.ToString()}});
  }
  folio::NotifyServiceManager("READY=1");
  signals.Wait();
  folio::NotifyServiceManager("STOPPING=1");
  (*server)->Drain(flags->drain_timeout,
                   [&](absl::Duration wait) { return signals.Wait(wait).has_value(); });
  server->reset();
  folio::log::Info("folio-manager ended");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  folio::ParseFlagsOrExit(argc, argv, kUsage);
  return Run();
}
