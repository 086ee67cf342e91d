#include "services/manager/flags.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "services/base/default_addresses.h"
#include "services/grpc/insecure_tcp_flag.h"
#include "services/manager/memory/pool_size.h"
#include "services/manager/pools_flag.h"
#include "services/manager/rule_flags.h"
#include "services/metrics/listen_flag.h"
#include "services/runtime/byte_size.h"
#include "services/runtime/connection_flag.h"
#include "services/runtime/descriptor_limit.h"
#include "services/runtime/flags.h"
#include "services/runtime/health_flag.h"
#include "services/runtime/listen_address.h"
#include "services/runtime/tls_flags.h"

ABSL_FLAG(std::vector<std::string>, listen, {folio::DefaultManagerAddress()},
          "gRPC addresses, unix:/path or host:port; several with commas or by giving it again");
ABSL_FLAG(std::vector<std::string>, admin_listen, {},
          "addresses like those of --listen for operators, that is for folioctl; --listen then "
          "serves workers alone. If empty, --listen serves both");
ABSL_FLAG(
    std::string, export_socket, "",
    "Unix socket that hands pool memory to workers; if empty, export.sock beside the first Unix "
    "socket of --listen");
ABSL_FLAG(
    std::string, state_dir, "",
    "folder of the journal, best in memory such as /run/folio/state, from which the next manager "
    "continues when this one dies or ends: sequences keep their pages as long as a worker lives. "
    "If empty, sequences end with the manager");
ABSL_FLAG(
    std::vector<std::string>, device, {"cpu"},
    "where the pages are: cpu, or a GPU such as cuda:0, or one GPU for each rank of the worker, "
    "such as cuda:0,cuda:1");
ABSL_FLAG(
    folio::manager::PoolSize, pool_bytes, {},
    "memory for the pages of all ranks together, such as 2GiB, or a share of the free memory, "
    "such as 80%; 0 means 25%");
ABSL_FLAG(bool, prefault, false,
          "take all memory of a pool in host memory when the first worker attaches, so that no "
          "worker ends later because the machine has none left; needs that much free memory");
ABSL_FLAG(
    std::string, default_budget, "",
    "budget of requests that give none and whose policy evicts, in tokens, such as 1024, or as a "
    "share of the prompt, such as 0.25; if empty, such requests are refused");
ABSL_FLAG(int, max_budget, 0,
          "most tokens that a sequence may hold in a layer, a multiple of the page size; 0 means "
          "no limit");
ABSL_FLAG(absl::Duration, kill_fenced_after, absl::Seconds(10),
          "how long a lost worker's process may block pages before the manager ends it with "
          "SIGKILL, from 0 to 24h, such as 10s. Clients must look for another worker for longer "
          "than this and --lease_ttl together. Give more than the longest step takes, and 0 to "
          "kill none, for example while you debug a worker");
ABSL_FLAG(bool, steering, true,
          "operators may end, park and pin sequences, drain, and release quarantined pages. With "
          "false they may only look");
ABSL_FLAG(
    absl::Duration, drain_timeout, absl::Seconds(30),
    "how long running sequences may take to finish after SIGTERM, from 0 to 24h, such as 30s");

namespace folio::manager {

namespace {

absl::StatusOr<std::string> ReadExportSocket(const std::vector<ListenAddress>& listen) {
  const std::string given = absl::GetFlag(FLAGS_export_socket);
  if (given.empty()) {
    for (const ListenAddress& address : listen) {
      if (!address.is_unix()) continue;
      const std::string directory = address.unix_path.substr(0, address.unix_path.rfind('/'));
      return absl::StrCat(directory, "/export.sock");
    }
    return DefaultExportSocketPath();
  }
  const absl::string_view path = absl::StripPrefix(given, "unix:");
  auto parsed = ParseListenAddress(absl::StrCat("unix:", path));
  if (!parsed.ok()) return BadFlag("export_socket", given, parsed.status().message());
  for (const ListenAddress& address : listen) {
    if (address.unix_path == parsed->unix_path) {
      return BadFlag("export_socket", given, "is a --listen address; choose another path");
    }
  }
  return parsed->unix_path;
}

absl::StatusOr<std::vector<ListenAddress>> ReadAdminListen(const std::vector<ListenAddress>& listen,
                                                           const std::string& export_socket) {
  const std::vector<std::string> given = absl::GetFlag(FLAGS_admin_listen);
  if (given.empty()) return std::vector<ListenAddress>();
  auto parsed = ParseListenFlag("admin_listen", given);
  if (!parsed.ok()) return parsed;
  ListenAddress pool;
  pool.unix_path = export_socket;
  absl::Status status = CheckNotTaken("admin_listen", *parsed, "listen", listen);
  status.Update(CheckNotTaken("admin_listen", *parsed, "export_socket", {pool}));
  if (!status.ok()) return status;
  return parsed;
}

absl::Status ReadAddresses(ServerOptions* server) {
  auto listen = ParseListenFlag("listen", absl::GetFlag(FLAGS_listen));
  if (!listen.ok()) return listen.status();
  server->listen = *std::move(listen);
  auto export_socket = ReadExportSocket(server->listen);
  if (!export_socket.ok()) return export_socket.status();
  server->export_socket = *std::move(export_socket);
  server->state_dir = absl::GetFlag(FLAGS_state_dir);
  auto admin = ReadAdminListen(server->listen, server->export_socket);
  if (!admin.ok()) return admin.status();
  server->admin_listen = *std::move(admin);
  auto health = ReadHealthListen(server->listen);
  if (!health.ok()) return health.status();
  server->health_listen = *std::move(health);
  absl::Status taken =
      CheckNotTaken("health_listen", server->health_listen, "admin_listen", server->admin_listen);
  if (!taken.ok()) return taken;
  std::vector<ListenAddress> grpc = server->listen;
  grpc.insert(grpc.end(), server->admin_listen.begin(), server->admin_listen.end());
  grpc.insert(grpc.end(), server->health_listen.begin(), server->health_listen.end());
  auto metrics = metrics::ReadMetricsListen(grpc);
  if (!metrics.ok()) return metrics.status();
  server->metrics_listen = *std::move(metrics);
  auto tls = ReadTlsFlags();
  if (!tls.ok()) return tls.status();
  server->tls = *std::move(tls);
  server->insecure_tcp = InsecureTcpAllowed();
  absl::Status status = CheckPlainTcp("listen", server->listen, server->tls);
  status.Update(CheckPlainTcp("admin_listen", server->admin_listen, server->tls));
  return status;
}

absl::StatusOr<std::vector<int>> ReadDevices() {
  const std::vector<std::string> given = absl::GetFlag(FLAGS_device);
  if (given == std::vector<std::string>{"cpu"}) return std::vector<int>();
  std::vector<int> devices;
  for (const std::string& device : given) {
    absl::string_view number = device;
    int ordinal = 0;
    if (!absl::ConsumePrefix(&number, "cuda:") || !absl::SimpleAtoi(number, &ordinal) ||
        ordinal < 0) {
      return BadFlag("device", absl::StrJoin(given, ","),
                     "give cpu, or GPUs by number, such as cuda:0 or cuda:0,cuda:1");
    }
    devices.push_back(ordinal);
  }
  if (devices.empty()) return BadFlag("device", "", "give cpu, or a GPU such as cuda:0");
  return devices;
}

PoolSize ReadPoolSize() {
  const PoolSize given = absl::GetFlag(FLAGS_pool_bytes);
  // The default leaves room for the worker's weights and for other programs of the machine.
  return given.bytes == 0 && given.share == 0 ? PoolSize{.share = 0.25} : given;
}

absl::StatusOr<policy::BudgetRules> ReadBudgets() {
  policy::BudgetRules rules;
  const std::string given = absl::GetFlag(FLAGS_default_budget);
  uint32_t tokens = 0;
  if (absl::SimpleAtoi(given, &tokens) && tokens > 0) {
    rules.default_tokens = TokenCount(tokens);
  } else if (!given.empty() && (!absl::SimpleAtod(given, &rules.default_share) ||
                                !(rules.default_share > 0 && rules.default_share < 1))) {
    return BadFlag("default_budget", given,
                   "give tokens, such as 1024, or a share of the prompt between 0 and 1, such as "
                   "0.25");
  }
  const int ceiling = absl::GetFlag(FLAGS_max_budget);
  if (ceiling < 0) return BadFlag("max_budget", absl::StrCat(ceiling), "must be 0 or more tokens");
  rules.ceiling = TokenCount(static_cast<uint32_t>(ceiling));
  if (ceiling > 0 && rules.default_tokens > rules.ceiling) {
    return BadFlag("default_budget", given,
                   absl::StrCat("is above --max_budget ", ceiling, "; lower it"));
  }
  return rules;
}

}  // namespace

absl::StatusOr<ManagerFlags> ReadFlags() {
  ManagerFlags flags;
  if (absl::Status status = ReadAddresses(&flags.server); !status.ok()) return status;
  const auto max_connections = ReadMaxConnections(DescriptorLimit());
  if (!max_connections.ok()) return max_connections.status();
  flags.server.max_connections = *max_connections;
  auto devices = ReadDevices();
  if (!devices.ok()) return devices.status();
  flags.devices = *std::move(devices);
  flags.prefault = absl::GetFlag(FLAGS_prefault);
  if (flags.prefault && !flags.devices.empty()) {
    return BadFlag("prefault", "true",
                   "is for pages in host memory; the memory of a GPU is always taken at once");
  }
  flags.server.pool_size = ReadPoolSize();
  auto pools = ReadPools();
  if (!pools.ok()) return pools.status();
  flags.server.pools = *std::move(pools);
  auto budgets = ReadBudgets();
  if (!budgets.ok()) return budgets.status();
  flags.server.budgets = *budgets;
  auto rules = ReadPoolRules();
  if (!rules.ok()) return rules.status();
  flags.server.rules = *rules;
  flags.server.kill_fenced_after = absl::GetFlag(FLAGS_kill_fenced_after);
  flags.server.steering = absl::GetFlag(FLAGS_steering);
  flags.drain_timeout = absl::GetFlag(FLAGS_drain_timeout);
  for (const absl::Status& status :
       {CheckFlagRange("kill_fenced_after", flags.server.kill_fenced_after, absl::ZeroDuration(),
                       absl::Hours(24)),
        CheckFlagRange("drain_timeout", flags.drain_timeout, absl::ZeroDuration(),
                       absl::Hours(24))}) {
    if (!status.ok()) return status;
  }
  return flags;
}

}  // namespace folio::manager
