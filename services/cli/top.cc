// folioctl top shows a manager on the whole screen, again and again.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/base/steady_time.h"
#include "services/base/steady_wait.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/options.h"
#include "services/cli/screen.h"
#include "services/cli/sequence_view.h"
#include "services/cli/top_data.h"
#include "services/cli/top_view.h"

namespace folio::cli {
namespace {

struct TopFlags {
  absl::Duration interval = absl::Seconds(1);
  bool once = false;
};

// The lines of `folioctl sequence ID`, or why there are none.
std::vector<std::string> Detail(client::AdminClient& client, uint64_t id, const Context& context) {
  const auto text = SequenceView(client, id, context);
  const std::string shown = text.ok() ? *text : std::string(text.status().message());
  return absl::StrSplit(shown, '\n');
}

absl::Status ShowOnce(client::AdminClient& client, const TopFlags& flags, const Context& context) {
  TopData data;
  if (absl::Status status = data.Refresh(client, context.Call()); !status.ok()) return status;
  SteadyNotification interrupted;
  const Interrupts::Scope scope(&context.terminal.interrupts, [&] { interrupted.Notify(); });
  if (interrupted.WaitFor(flags.interval)) return absl::CancelledError("interrupted");
  if (absl::Status status = data.Refresh(client, context.Call()); !status.ok()) return status;
  TopView view;
  view.Resize({context.terminal.width, 24});
  for (const std::string& line : view.DrawAll(data, context.terminal)) {
    context.terminal.out << line << "\n";
  }
  return absl::OkStatus();
}

// Until the user leaves, or the manager does not answer from the beginning.
absl::Status Follow(client::AdminClient& client, const TopFlags& flags, Context& context) {
  TopData data;
  if (absl::Status status = data.Refresh(client, context.Call()); !status.ok()) return status;
  std::atomic<bool> interrupted = false;
  const Interrupts::Scope scope(&context.terminal.interrupts, [&] { interrupted = true; });
  Screen screen;
  if (absl::Status status = screen.Start(); !status.ok()) return status;
  TopView view;
  SteadyTime next = SteadyNow() + flags.interval;
  while (!interrupted) {
    view.Resize(screen.size());
    screen.Draw(view.Draw(data, context.terminal));
    const absl::Duration wait =
        std::clamp(next - SteadyNow(), absl::ZeroDuration(), absl::Milliseconds(100));
    const std::optional<Key> key = screen.ReadKey(wait);
    const auto before = view.opened();
    if (key.has_value() && !view.OnKey(*key)) break;
    const bool due = SteadyNow() >= next;
    if (view.opened().has_value() && (due || view.opened() != before)) {
      view.SetDetail(Detail(client, *view.opened(), context));
    }
    if (!due) continue;
    next = SteadyNow() + flags.interval;
    if (view.paused()) continue;
    const absl::Status status = data.Refresh(client, context.Call());
    view.SetNote(status.ok() ? "" : absl::StrCat("no answer: ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status Top(const TopFlags& flags, Context& context) {
  if (context.structured()) {
    return UsageError("top has no form for programs; use pools, sequences and tenants");
  }
  if (!flags.once && !(context.terminal.in_is_tty && context.terminal.out_is_tty)) {
    return UsageError("top needs a terminal; --once prints one frame without one");
  }
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  return flags.once ? ShowOnce(**client, flags, context) : Follow(**client, flags, context);
}

}  // namespace

void AddTop(CLI::App& root, Context& context) {
  auto flags = std::make_shared<TopFlags>();
  CLI::App* command = AddCommand(
      root, "top",
      "A manager on the whole screen: pools, a map of the pages, throughput, evictions, queues "
      "and\n"
      "the slowest sequences. Keys: arrows select, Enter opens a sequence, s sorts, / filters,\n"
      "q quits (manager)",
      "  folioctl top\n  folioctl top --interval 250ms\n  folioctl top --once");
  command->add_flag("--once", flags->once, "Print one frame, and exit");
  command
      ->add_option_function<std::string>(
          "--interval",
          [flags](const std::string& text) {
            if (!ParseTimeout(text, &flags->interval) || flags->interval < absl::Milliseconds(50)) {
              throw CLI::ValidationError(
                  "--interval", "\"" + text + "\" is not a duration of at least 50ms, such as 1s");
            }
          },
          "Time between two looks at the manager, at least 50ms")
      ->default_str("1s");
  SetAction(command, Top, flags, context);
}

}  // namespace folio::cli
