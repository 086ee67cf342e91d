// folioctl workers, leases and quarantine show the workers of a manager: what they do, how long
// they may write, and which pages wait for the end of their processes.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

using folio::v1::ListWorkersResponse;
using folio::v1::Worker;

// The processes of all ranks, or "-" if none is known.
std::string Pids(const Worker& worker) {
  std::vector<std::string> pids;
  for (const auto& process : worker.processes()) {
    if (process.pid() != 0) pids.push_back(absl::StrCat(process.pid()));
  }
  return pids.empty() ? "-" : absl::StrJoin(pids, ",");
}

std::string Milliseconds(uint32_t milliseconds) { return FormatSeconds(milliseconds / 1e3); }

std::string State(const Worker& worker) {
  return worker.has_fence() ? absl::StrCat("fenced: ", worker.fence().reason()) : "live";
}

std::string RenderWorkers(const ListWorkersResponse& workers, const Terminal& terminal) {
  if (workers.workers().empty()) return "No worker is attached.\n";
  Table table({{"worker"},
               {"name"},
               {"pid", kRight},
               {"state"},
               {"sequences", kRight},
               {"pages", kRight},
               {"lease left", kRight},
               {"steps", kRight},
               {"in step for", kRight}});
  for (const Worker& worker : workers.workers()) {
    const bool tells = worker.has_steps_done();
    table.Row({worker.worker_id(), QuotePiece(worker.name()), Pids(worker), State(worker),
               FormatCount(worker.sequences()), FormatCount(worker.held_pages()),
               worker.has_lease_remaining_ms() ? Milliseconds(worker.lease_remaining_ms()) : "-",
               tells ? FormatCount(worker.steps_done()) : "-",
               tells ? Milliseconds(worker.step_in_flight_ms()) : "-"});
  }
  return table.Render(terminal);
}

std::string RenderLeases(const ListWorkersResponse& workers, const Terminal& terminal) {
  const std::string rule = absl::StrCat("A lease ends ", Milliseconds(workers.lease_ttl_ms()),
                                        " after the worker's last message.\n");
  if (workers.workers().empty()) return absl::StrCat("No worker has a lease.\n", rule);
  Table table({{"worker"},
               {"name"},
               {"ends in", kRight},
               {"renewed", kRight},
               {"sequences", kRight},
               {"claimed", kRight},
               {"highest epoch", kRight}});
  for (const Worker& worker : workers.workers()) {
    const uint32_t left = std::min(worker.lease_remaining_ms(), workers.lease_ttl_ms());
    table.Row({worker.worker_id(), QuotePiece(worker.name()), Milliseconds(left),
               absl::StrCat(Milliseconds(workers.lease_ttl_ms() - left), " ago"),
               FormatCount(worker.sequences()), FormatCount(worker.claimed_sequences()),
               worker.sequences() == 0 ? "-" : absl::StrCat(worker.highest_lease_epoch())});
  }
  return absl::StrCat(table.Render(terminal), "\n", rule);
}

std::string KillPlan(const folio::v1::Fence& fence) {
  if (fence.has_kill_error()) return absl::StrCat("failed: ", fence.kill_error());
  if (fence.killed()) return "sent";
  return fence.has_kill_in_ms() ? absl::StrCat("in ", Milliseconds(fence.kill_in_ms())) : "never";
}

std::string RenderQuarantine(const ListWorkersResponse& workers, const Terminal& terminal) {
  if (workers.workers().empty()) return "No pages wait for the end of a process.\n";
  Table table({{"worker"},
               {"name"},
               {"pid", kRight},
               {"pages", kRight},
               {"orphans", kRight},
               {"fenced", kRight},
               {"silent for", kRight},
               {"why"},
               {"kill"}});
  for (const Worker& worker : workers.workers()) {
    const folio::v1::Fence& fence = worker.fence();
    table.Row({worker.worker_id(), QuotePiece(worker.name()), Pids(worker),
               FormatCount(fence.blocked_pages()), FormatCount(fence.orphans()),
               absl::StrCat(Milliseconds(fence.fenced_ms()), " ago"),
               Milliseconds(fence.silent_ms()), fence.reason(), KillPlan(fence)});
  }
  return absl::StrCat(table.Render(terminal),
                      "\nThese pages come back when the processes have ended.\n");
}

bool Always(const Worker& /*worker*/) { return true; }
bool HasLease(const Worker& worker) { return worker.has_lease_remaining_ms(); }
bool BlocksPages(const Worker& worker) { return worker.fence().blocked_pages() > 0; }

// One view of the workers: which of them, and how they look as text.
struct View {
  bool (*shows)(const Worker&);
  std::string (*render)(const ListWorkersResponse&, const Terminal&);
};

absl::Status Show(const View& view, Context& context) {
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  auto all = (*client)->ListWorkers(context.Call());
  if (!all.ok()) return all.status();
  ListWorkersResponse shown = *all;
  shown.clear_workers();
  for (const Worker& worker : all->workers()) {
    if (view.shows(worker)) *shown.add_workers() = worker;
  }
  context.terminal.out << (context.json ? ToJson(shown, /*pretty=*/true)
                                        : view.render(shown, context.terminal));
  return absl::OkStatus();
}

void ShowBy(CLI::App* command, const View& view, Context& context) {
  command->callback(
      [view, &context] { context.action = [view, &context] { return Show(view, context); }; });
}

}  // namespace

void AddWorkers(CLI::App& root, Context& context) {
  CLI::App* command =
      AddCommand(root, "workers", "Workers, live or fenced, and what they do (manager)",
                 "  folioctl workers\n  folioctl workers --output json");
  ShowBy(command, {Always, RenderWorkers}, context);
}

void AddLeases(CLI::App& root, Context& context) {
  CLI::App* command = AddCommand(
      root, "leases", "Leases: how long each worker may still write, and what it claimed (manager)",
      "  folioctl leases\n  watch -n 0.5 folioctl leases");
  ShowBy(command, {HasLease, RenderLeases}, context);
}

void AddQuarantine(CLI::App& root, Context& context) {
  CLI::App* command =
      AddCommand(root, "quarantine", "Pages that wait for the end of a lost worker (manager)",
                 "  folioctl quarantine\n  folioctl quarantine --output json");
  ShowBy(command, {BlocksPages, RenderQuarantine}, context);
}

}  // namespace folio::cli
