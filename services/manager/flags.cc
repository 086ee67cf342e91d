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
#include "services/manager/memory/pool_size.h"
#include "services/metrics/listen_flag.h"
#include "services/runtime/flags.h"
#include "services/runtime/listen_address.h"

ABSL_FLAG(std::vector<std::string>, listen, {folio::DefaultManagerAddress()},
          "gRPC addresses, unix:/path or host:port; several with commas or by giving it again");
ABSL_FLAG(std::vector<std::string>, health_listen, {},
          "addresses like those of --listen that serve grpc.health.v1 and nothing else, for the "
          "probes of an orchestrator, such as 0.0.0.0:7001");
ABSL_FLAG(
    std::string, export_socket, "",
    "Unix socket that hands pool memory to workers; if empty, export.sock beside the first Unix "
    "socket of --listen");
ABSL_FLAG(
    std::vector<std::string>, device, {"cpu"},
    "where the pages are: cpu, or a GPU such as cuda:0, or one GPU for each rank of the worker, "
    "such as cuda:0,cuda:1");
ABSL_FLAG(
    folio::manager::PoolSize, pool_bytes, {},
    "memory for the pages of all ranks together, such as 2GiB, or a share of the free memory, "
    "such as 80%; 0 means 25%");
ABSL_FLAG(
    std::string, default_budget, "",
    "budget of requests that give none and whose policy evicts, in tokens, such as 1024, or as a "
    "share of the prompt, such as 0.25; if empty, such requests are refused");
ABSL_FLAG(int, max_budget, 0,
          "most tokens that a sequence may hold in a layer, a multiple of the page size; 0 means "
          "no limit");
ABSL_FLAG(
    absl::Duration, lease_ttl, absl::Seconds(10),
    "how long a worker that sends nothing keeps its sequences, from 100ms to 1h, such as 10s");
ABSL_FLAG(
    absl::Duration, orphan_ttl, absl::Seconds(60),
    "how long a sequence whose worker was lost keeps its pages, so that another worker can "
    "continue it, unless other sequences need them; from 0 (it ends at once) to 24h, such as 60s");
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

absl::StatusOr<std::vector<ListenAddress>> ReadHealthListen(
    const std::vector<ListenAddress>& listen) {
  const std::vector<std::string> given = absl::GetFlag(FLAGS_health_listen);
  if (given.empty()) return std::vector<ListenAddress>();
  auto parsed = ParseListenFlag("health_listen", given);
  if (!parsed.ok()) return parsed.status();
  for (const ListenAddress& address : *parsed) {
    for (const ListenAddress& other : listen) {
      if (address.port == 0 && !address.is_unix()) continue;
      if (address.ToString() != other.ToString()) continue;
      return BadFlag("health_listen", address.ToString(), "is a --listen address; choose another");
    }
  }
  return parsed;
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
  auto listen = ParseListenFlag("listen", absl::GetFlag(FLAGS_listen));
  if (!listen.ok()) return listen.status();
  flags.server.listen = *std::move(listen);
  auto health_listen = ReadHealthListen(flags.server.listen);
  if (!health_listen.ok()) return health_listen.status();
  flags.server.health_listen = *std::move(health_listen);
  std::vector<ListenAddress> grpc = flags.server.listen;
  grpc.insert(grpc.end(), flags.server.health_listen.begin(), flags.server.health_listen.end());
  auto metrics_listen = metrics::ReadMetricsListen(grpc);
  if (!metrics_listen.ok()) return metrics_listen.status();
  flags.server.metrics_listen = *std::move(metrics_listen);
  auto export_socket = ReadExportSocket(flags.server.listen);
  if (!export_socket.ok()) return export_socket.status();
  flags.server.export_socket = *std::move(export_socket);
  auto devices = ReadDevices();
  if (!devices.ok()) return devices.status();
  flags.devices = *std::move(devices);
  flags.server.pool_size = ReadPoolSize();
  auto budgets = ReadBudgets();
  if (!budgets.ok()) return budgets.status();
  flags.server.budgets = *budgets;
  flags.server.lease_ttl = absl::GetFlag(FLAGS_lease_ttl);
  flags.server.orphan_ttl = absl::GetFlag(FLAGS_orphan_ttl);
  flags.drain_timeout = absl::GetFlag(FLAGS_drain_timeout);
  for (const absl::Status& status : {CheckFlagRange("lease_ttl", flags.server.lease_ttl,
                                                    absl::Milliseconds(100), absl::Hours(1)),
                                     CheckFlagRange("orphan_ttl", flags.server.orphan_ttl,
                                                    absl::ZeroDuration(), absl::Hours(24)),
                                     CheckFlagRange("drain_timeout", flags.drain_timeout,
                                                    absl::ZeroDuration(), absl::Hours(24))}) {
    if (!status.ok()) return status;
  }
  return flags;
}

}  // namespace folio::manager
