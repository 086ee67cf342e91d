// folioctl workers, leases and quarantine show the workers of a manager: what they do, how long
// they may write, and which pages wait for the end of their processes.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/format.h"
#include "services/cli/sequence_text.h"
#include "services/cli/table.h"
#include "services/client/steering.h"

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
  if (worker.has_fence()) return absl::StrCat("fenced: ", worker.fence().reason());
  return worker.draining() ? "draining" : "live";
}

std::string RenderWorkers(const ListWorkersResponse& workers, const Context& context) {
  if (workers.workers().empty()) return "No worker is attached.\n";
  Table table({{"worker"},
               {"name"},
               {"pid", kRight},
               {"state"},
               {"sequences", kRight},
               {"pages", kRight},
               {"lease left", kRight},
               {"steps", kRight},
               {"in step for", kRight},
               {"ranks", kRight, kOnlyWide},
               {"with pages", kRight, kOnlyWide},
               {"claimed", kRight, kOnlyWide},
               {"highest epoch", kRight, kOnlyWide},
               {"pool", kLeft, kOnlyWide}},
              context.wide());
  for (const Worker& worker : workers.workers()) {
    const bool tells = worker.has_steps_done();
    const auto with_pages =
        absl::c_count_if(worker.processes(), [](const auto& one) { return one.has_pages(); });
    table.Row({worker.worker_id(), QuotePiece(worker.name()), Pids(worker), State(worker),
               FormatCount(worker.sequences()), FormatCount(worker.held_pages()),
               worker.has_lease_remaining_ms() ? Milliseconds(worker.lease_remaining_ms()) : "-",
               tells ? FormatCount(worker.steps_done()) : "-",
               tells ? Milliseconds(worker.step_in_flight_ms()) : "-",
               absl::StrCat(worker.processes_size()), absl::StrCat(with_pages),
               FormatCount(worker.claimed_sequences()), absl::StrCat(worker.highest_lease_epoch()),
               PoolName(worker.pool())});
  }
  return table.Render(context.terminal);
}

std::string RenderLeases(const ListWorkersResponse& workers, const Context& context) {
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
  return absl::StrCat(table.Render(context.terminal), "\n", rule);
}

std::string KillPlan(const folio::v1::Fence& fence) {
  if (fence.has_kill_error()) return absl::StrCat("failed: ", fence.kill_error());
  if (fence.killed()) return "sent";
  return fence.has_kill_in_ms() ? absl::StrCat("in ", Milliseconds(fence.kill_in_ms())) : "never";
}

std::string RenderQuarantine(const ListWorkersResponse& workers, const Context& context) {
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
  return absl::StrCat(table.Render(context.terminal),
                      "\nThese pages come back when the processes have ended.\n");
}

bool Always(const Worker& /*worker*/) { return true; }
bool HasLease(const Worker& worker) { return worker.has_lease_remaining_ms(); }
bool BlocksPages(const Worker& worker) { return worker.fence().blocked_pages() > 0; }

// One view of the workers: which of them, and how they look as text.
struct View {
  bool (*shows)(const Worker&);
  std::string (*render)(const ListWorkersResponse&, const Context&);
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
  if (context.structured()) return context.Print(shown);
  context.terminal.out << view.render(shown, context);
  return absl::OkStatus();
}

struct ReleaseFlags {
  std::string worker;
  std::string reason;
  bool sure = false;
};

absl::Status Release(const ReleaseFlags& flags, Context& context) {
  if (!flags.sure) {
    return UsageError(
        "a process that still runs would damage the sequences that get these pages. Make sure "
        "that all processes of the worker have ended, and give --i_know_the_process_ended");
  }
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  const auto freed =
      client::Steering(**client).ReleaseQuarantine(flags.worker, flags.reason, context.Call());
  if (!freed.ok()) return freed.status();
  if (context.structured()) {
    folio::v1::ReleaseQuarantineResponse response;
    response.set_freed_pages(*freed);
    return context.Print(response);
  }
  context.terminal.out << FormatCount(*freed) << " pages of worker " << flags.worker
                       << " are free now.\n";
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
                 "  folioctl quarantine\n"
                 "  folioctl quarantine --output json\n"
                 "  folioctl quarantine release w3 --i_know_the_process_ended");
  const View view = {BlocksPages, RenderQuarantine};
  command->require_subcommand(0, 1);
  command->callback([command, view, &context] {
    if (!command->get_subcommands().empty()) return;
    context.action = [view, &context] { return Show(view, context); };
  });
  auto flags = std::make_shared<ReleaseFlags>();
  CLI::App* release = AddCommand(
      *command, "release",
      "Give the pages of a fenced worker back whose processes have ended, which the manager "
      "cannot\n"
      "see. If one of them still wrote, it would damage the sequences that get these pages",
      "  folioctl quarantine release w3 --i_know_the_process_ended --reason \"node was reset\"");
  release->add_option("worker", flags->worker, "The worker's id")->required();
  release->add_flag("--i_know_the_process_ended", flags->sure,
                    "You have made sure that all processes of the worker have ended");
  release->add_option("--reason", flags->reason, "Why, for the manager's log and its events");
  SetAction(release, Release, flags, context);
}

}  // namespace folio::cli
