// The program folio-manager owns the pages of a node's KV cache.
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "services/access/access_flag.h"
#include "services/base/clock.h"
#include "services/base/ids.h"
#include "services/base/random_bytes.h"
#include "services/manager/flags.h"
#include "services/manager/memory/device_memory.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/memory/machine_memory.h"
#include "services/manager/pools_flag.h"
#include "services/manager/rule_flags.h"
#include "services/manager/server.h"
#include "services/runtime/byte_size.h"
#include "services/runtime/descriptor_limit.h"
#include "services/runtime/flags.h"
#include "services/runtime/listen_address.h"
#include "services/runtime/lock_checks.h"
#include "services/runtime/logging.h"
#include "services/runtime/service_manager.h"
#include "services/runtime/signals.h"
#include "services/runtime/version.h"

namespace {

// A multiple of this below a million times it.
constexpr uint64_t kIdsOfAStart = 1'000'000;

// Another one for each start, so that an id from before a manager's end names no other sequence.
folio::SequenceId BeforeFirstSequence() {
  return folio::SequenceId(folio::RandomWord() % kIdsOfAStart * kIdsOfAStart);
}

constexpr absl::string_view kUsage =
    "folio-manager [flags]\n\n"
    "Owns the pages of the KV cache. It hands pool memory to workers, admits sequences and "
    "decides\n"
    "what is evicted. SIGTERM or SIGINT lets running sequences finish. A second one ends at once.";

absl::Status MakeDirectories(const folio::manager::ServerOptions& options) {
  for (const auto* addresses : {&options.listen, &options.admin_listen}) {
    if (auto status = folio::MakeSocketDirectories(*addresses); !status.ok()) return status;
  }
  return folio::MakeSocketDirectory(options.export_socket);
}

// INVALID_ARGUMENT names the flag whose memory the machine does not have. Swap memory is taken as
// it is written, so a size beyond the free memory is only worth a warning.
absl::Status CheckMemory(const folio::manager::ServerOptions& options,
                         const folio::manager::PageSource& pages) {
  const folio::manager::PoolSize& pool = options.pool_size;
  if (absl::Status status = pages.CheckSize(pool); !status.ok()) {
    return folio::BadFlag("pool_bytes", folio::manager::FormatPoolSize(pool), status.message());
  }
  const uint64_t swap = options.rules.host_swap_bytes;
  const folio::manager::MachineMemory machine = folio::manager::ReadMachineMemory();
  if (machine.total != 0 && swap > machine.total) {
    return folio::BadFlag("host_swap_bytes", folio::FormatByteSize({swap}),
                          absl::StrCat("is more than the memory of the machine or the cgroup, ",
                                       machine.total, " bytes"));
  }
  if (machine.total != 0 && swap > machine.available) {
    folio::log::Warning("--host_swap_bytes is more than the memory that is free now",
                        {{"host_swap_bytes", swap}, {"free_bytes", machine.available}});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<folio::manager::PageSource>> MakePageSource(
    const folio::manager::ManagerFlags& flags) {
  if (flags.devices.empty()) return std::make_unique<folio::manager::HostMemory>(flags.prefault);
  return folio::manager::DeviceMemory::Open(flags.devices, {});
}

void LogAddresses(const folio::manager::Server& server) {
  for (const folio::ListenAddress& address : server.addresses()) {
    folio::log::Info("listening", {{"address", address.ToString()}});
  }
  for (const folio::ListenAddress& address : server.admin_addresses()) {
    folio::log::Info("listening for operators", {{"address", address.ToString()}});
  }
  for (const folio::ListenAddress& address : server.health_addresses()) {
    folio::log::Info("listening for health checks", {{"address", address.ToString()}});
  }
}

void LogStarted(const folio::manager::ManagerFlags& flags, const folio::manager::Server& server,
                absl::string_view device, int descriptors) {
  const folio::manager::PoolSize& pool_size = flags.server.pool_size;
  const folio::manager::PoolRules& rules = flags.server.rules;
  const std::vector<folio::manager::PoolShare>& pools = flags.server.pools;
  const folio::log::Field size_field =
      pool_size.is_share()
          ? folio::log::Field("pool_bytes", folio::manager::FormatPoolSize(pool_size))
          : folio::log::Field("pool_bytes", pool_size.bytes);
  folio::log::Info("folio-manager started",
                   {{"version", folio::BuildDescription()},
                    {"boot_id", server.boot_id()},
                    {"device", device},
                    size_field,
                    {"pools", pools.empty() ? "default:100%" : folio::manager::FormatPools(pools)},
                    {"admission", folio::manager::AdmissionName(rules.admission)},
                    {"host_swap_bytes", rules.host_swap_bytes},
                    {"clear_pages", folio::manager::ClearPagesName(rules.clear_pages)},
                    {"lease_ttl", rules.lease_ttl},
                    {"orphan_ttl", rules.orphan_ttl},
                    {"orphan_grace", rules.orphan_grace},
                    {"kill_fenced_after", flags.server.kill_fenced_after},
                    {"descriptors", descriptors},
                    {"max_connections", flags.server.max_connections},
                    {"export_socket", flags.server.export_socket}});
}

int Run() {
  folio::SkipLockCycleChecks();
  const int descriptors = folio::RaiseDescriptorLimit();
  auto flags = folio::manager::ReadFlags();
  if (!flags.ok()) folio::ExitBadFlag("folio-manager", flags.status());
  folio::TerminationSignals signals;  // before any thread starts, and drivers start some
  folio::log::WriteInBackground();
  auto inherited = folio::InheritedSockets::Take();
  if (!inherited.ok()) {
    folio::log::Error("cannot start", {{"reason", inherited.status()}});
    return 1;
  }
  flags->server.inherited = &*inherited;
  const auto pages = MakePageSource(*flags);
  if (!pages.ok()) {
    folio::log::Error("cannot start", {{"reason", pages.status()}});
    return 1;
  }
  if (absl::Status status = CheckMemory(flags->server, **pages); !status.ok()) {
    folio::ExitBadFlag("folio-manager", status);
  }
  flags->server.pages = pages->get();
  const folio::RealClock clock;
  flags->server.clock = &clock;
  flags->server.before_first_sequence = BeforeFirstSequence();

  if (absl::Status status = MakeDirectories(flags->server); !status.ok()) {
    folio::log::Error("cannot start", {{"reason", status}});
    return 1;
  }
  auto access = folio::access::OpenAccess();
  if (!access.ok()) {
    folio::log::Error("cannot start", {{"reason", access.status()}});
    return 1;
  }
  flags->server.access = *std::move(access);
  auto server = folio::manager::Server::Start(flags->server);
  if (!server.ok()) {
    folio::log::Error("cannot start", {{"reason", server.status()}});
    return 1;
  }
  LogStarted(*flags, **server, (*pages)->device(), descriptors);
  LogAddresses(**server);
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
  // A journal that is longer than a file may be fails as on a full disk.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  folio::ParseFlagsOrExit(argc, argv, kUsage);
  return Run();
}
