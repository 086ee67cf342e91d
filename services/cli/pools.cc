// folioctl pools shows the memory of a manager, and who uses it.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/sequence_text.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

// "cpu", or the GPUs of the ranks.
std::string PlacesOf(const folio::v1::Pool& pool) {
  std::vector<std::string> places;
  for (const auto& memory : pool.rank_memory()) {
    if (std::find(places.begin(), places.end(), memory.device()) == places.end()) {
      places.push_back(memory.device());
    }
  }
  return absl::StrJoin(places, ",");
}

// Begins with an empty line. Empty if pages are in host memory.
std::string RenderDevices(const folio::v1::ListPoolsResponse& pools, const Terminal& terminal) {
  if (pools.devices().empty()) return "";
  Table table({{"device"}, {"name"}, {"UUID"}, {"ranks"}, {"memory", kRight}, {"free", kRight}});
  for (const auto& device : pools.devices()) {
    const std::string ranks = absl::StrJoin(device.ranks(), ",");
    table.Row({device.device(), device.name(), device.uuid(), ranks.empty() ? "all" : ranks,
               device.has_total_bytes() ? FormatBytes(device.total_bytes()) : "-",
               device.has_free_bytes() ? FormatBytes(device.free_bytes()) : "-"});
  }
  return absl::StrCat("\n", table.Render(terminal));
}

// Begins with an empty line. Empty without swap memory.
std::string RenderSwap(const folio::v1::ListPoolsResponse& pools) {
  std::string text;
  for (const auto& pool : pools.pools()) {
    if (pool.total_swap_slots() == 0) continue;
    absl::StrAppend(&text, "\nSwap memory of pool ", PoolTitle(pool), ": ",
                    FormatCount(pool.used_swap_slots()), " of ",
                    FormatCount(pool.total_swap_slots()), " slots in use, each for a page\n");
  }
  return text;
}

// Begins with an empty line. Empty if the manager is of a version that does not tell.
std::string RenderManager(const absl::StatusOr<folio::v1::GetManagerResponse>& manager) {
  if (!manager.ok()) return "";
  return absl::StrCat("\nfolio-manager ", manager->build(), ", pid ", manager->pid(), ", up ",
                      FormatSeconds(manager->uptime_ms() / 1e3),
                      manager->boot_id().empty() ? "" : ", boot ", manager->boot_id(),
                      manager->draining() ? ", takes no new sequences (folioctl drain)" : "", "\n");
}

// Begins with an empty line.
std::string RenderWorkers(const folio::v1::ListPoolsResponse& pools, const Terminal& terminal) {
  Table workers({{"worker"},
                 {"name"},
                 {"pool", kRight},
                 {"pid", kRight},
                 {"sequences", kRight},
                 {"lease left", kRight},
                 {"steps", kRight},
                 {"in step for", kRight}});
  bool any = false;
  for (const auto& pool : pools.pools()) {
    for (const auto& worker : pool.workers()) {
      any = true;
      workers.Row({worker.worker_id(), worker.name(), PoolTitle(pool), absl::StrCat(worker.pid()),
                   FormatCount(worker.sequences()),
                   FormatSeconds(worker.lease_remaining_ms() / 1e3),
                   worker.has_steps_done() ? FormatCount(worker.steps_done()) : "-",
                   FormatSeconds(worker.step_in_flight_ms() / 1e3)});
    }
  }
  if (!any) return "\nNo worker is attached.\n";
  return absl::StrCat("\n", workers.Render(terminal));
}

absl::Status ShowPools(Context& context) {
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  const auto pools = (*client)->ListPools(context.Call());
  if (!pools.ok()) return pools.status();
  std::ostream& out = context.terminal.out;
  if (context.structured()) return context.Print(*pools);
  const std::string manager = RenderManager((*client)->GetManager(context.Call()));
  const std::string devices = RenderDevices(*pools, context.terminal);
  if (pools->pools().empty()) {
    out << "No pool: no worker has attached yet.\n" << devices << manager;
    return absl::OkStatus();
  }
  Table table({{"pool", kRight},
               {"model"},
               {"device"},
               {"size", kRight},
               {"page", kRight},
               {"pages", kRight},
               {"free", kRight},
               {"held", kRight},
               {"quarantined", kRight},
               {"reserved", kRight},
               {"sequences", kRight},
               {"huge pages"},
               {"orphans", kRight, kOnlyWide},
               {"layers", kRight, kOnlyWide},
               {"KV heads", kRight, kOnlyWide},
               {"swap used", kRight, kOnlyWide},
               {"swap slots", kRight, kOnlyWide},
               {"fingerprint", kLeft, kOnlyWide}},
              context.wide());
  for (const auto& pool : pools->pools()) {
    table.Row({PoolTitle(pool), pool.layout().model(), PlacesOf(pool),
               FormatBytes(pool.pool_bytes()), FormatBytes(pool.page_bytes()),
               FormatCount(pool.total_pages()), FormatCount(pool.free_pages()),
               FormatCount(pool.held_pages()), FormatCount(pool.quarantined_pages()),
               FormatCount(pool.reserved_pages()), FormatCount(pool.sequences()),
               pool.huge_pages() ? "yes" : "no", FormatCount(pool.orphans()),
               FormatCount(pool.layout().num_layers()), FormatCount(pool.layout().num_kv_heads()),
               FormatCount(pool.used_swap_slots()), FormatCount(pool.total_swap_slots()),
               pool.layout().fingerprint()});
  }
  out << table.Render(context.terminal) << devices << RenderSwap(*pools);
  out << RenderWorkers(*pools, context.terminal);
  out << manager;
  return absl::OkStatus();
}

}  // namespace

void AddPools(CLI::App& root, Context& context) {
  CLI::App* command =
      AddCommand(root, "pools", "Pools, their pages and the workers that use them (manager)",
                 "  folioctl pools\n  folioctl pools --address 127.0.0.1:7070 --output json");
  SetAction(command, ShowPools, context);
}

}  // namespace folio::cli
