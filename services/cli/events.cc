// folioctl events shows what happened in a manager, and what happens.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/format.h"

namespace folio::cli {
namespace {

using folio::v1::Event;
using folio::v1::EventKind;

constexpr char kAllKinds[] = "all";

struct EventFlags {
  bool follow = false;
  uint64_t after = 0;
  std::vector<std::string> kinds;
};

// EVENT_KIND_WORKER_FENCED is "worker_fenced". A kind that this version does not know is its
// number.
std::string KindName(EventKind kind) {
  const std::string& name = folio::v1::EventKind_Name(kind);
  if (name.empty()) return absl::StrCat(kind);
  return absl::AsciiStrToLower(absl::StripPrefix(name, "EVENT_KIND_"));
}

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  for (int kind = 1; kind <= folio::v1::EventKind_MAX; ++kind) {
    names.push_back(KindName(static_cast<EventKind>(kind)));
  }
  return names;
}

absl::StatusOr<folio::v1::WatchEventsRequest> RequestOf(const EventFlags& flags) {
  folio::v1::WatchEventsRequest request;
  request.set_after(flags.after);
  request.set_follow(flags.follow);
  const std::vector<std::string> names = KindNames();
  for (const std::string& wanted : flags.kinds) {
    bool found = false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (wanted != kAllKinds && wanted != names[i]) continue;
      request.add_kinds(static_cast<EventKind>(i + 1));
      found = true;
    }
    if (!found) {
      return UsageError(absl::StrCat("--kind ", wanted, ": no such kind of event; use ", kAllKinds,
                                     ", ", absl::StrJoin(names, ", ")));
    }
  }
  return request;
}

// A text that must stay on its line.
std::string OneLine(const std::string& text) {
  const bool plain = text.find_first_of("\n\r\t\x1b") == std::string::npos;
  return plain ? text : QuotePiece(text);
}

// Says what the number of pages means.
std::string Pages(const Event& event) {
  std::string pages = absl::StrCat(FormatCount(event.pages()), " pages");
  switch (event.kind()) {
    case folio::v1::EVENT_KIND_WORKER_FENCED:
      return absl::StrCat("blocks ", pages);
    case folio::v1::EVENT_KIND_WORKER_GONE:
      return absl::StrCat("blocked ", pages, ", ", FormatCount(event.freed_pages()),
                          " of them are free now");
    case folio::v1::EVENT_KIND_PAGES_EVICTED:
      return absl::StrCat("freed ", pages);
    default:
      return pages;
  }
}

std::string Describe(const Event& event) {
  std::vector<std::string> facts;
  const auto add = [&facts](bool has, auto&&... parts) {
    if (has) facts.push_back(absl::StrCat(parts...));
  };
  add(event.has_worker_id(), event.worker_id());
  add(event.has_worker_name(), "name ", QuotePiece(event.worker_name()));
  add(event.has_rank(), "rank ", event.rank());
  add(event.has_pid(), "pid ", event.pid());
  add(event.has_sequence_id(), "sequence ", event.sequence_id());
  add(event.has_label(), "label ", QuotePiece(event.label()));
  add(event.has_sequences(), FormatCount(event.sequences()), " sequences");
  add(event.has_workers(), FormatCount(event.workers()), " workers");
  add(event.has_tokens(), FormatCount(event.tokens()), " tokens");
  add(event.has_lease_epoch(), "lease ", event.lease_epoch());
  add(event.has_policy(), event.policy());
  add(event.has_pages(), Pages(event));
  add(event.has_pool(), "pool ", event.pool());
  const std::string text = OneLine(event.text());
  if (event.has_code()) {
    facts.push_back(absl::StrCat(event.code(), ": ", text));
  } else {
    add(event.has_text(), text);
  }
  return absl::StrJoin(facts, ", ");
}

// "      12  2026-11-24 06:01:26.123  worker_fenced        w1, ...". The time is UTC.
std::string Line(const folio::v1::WatchEventsResponse& response) {
  if (response.has_lost()) {
    return absl::StrCat(FormatCount(response.lost().events()),
                        " events are lost: the manager has dropped them before they were read.");
  }
  const Event& event = response.event();
  const std::string time = absl::FormatTime(
      "%Y-%m-%d %H:%M:%E3S", absl::FromUnixMicros(static_cast<int64_t>(event.time_us())),
      absl::UTCTimeZone());
  return absl::StrFormat("%8d  %s  %-18s  %s", event.number(), time, KindName(event.kind()),
                         Describe(event));
}

absl::Status ShowEvents(const EventFlags& flags, Context& context) {
  const auto request = RequestOf(flags);
  if (!request.ok()) return request.status();
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  Terminal& terminal = context.terminal;
  const client::CallOptions options = context.Call();
  const Interrupts::Scope scope(&terminal.interrupts,
                                [cancellation = options.cancellation] { cancellation.Cancel(); });
  client::EventStream events = (*client)->WatchEvents(*request, options);
  while (const auto response = events.Next()) {
    if (!context.structured()) {
      terminal.out << terminal.Printable(Line(*response)) << "\n" << std::flush;
      continue;
    }
    absl::Status status = WriteItem(*response, context.output, terminal.out);
    if (!status.ok()) return status;
  }
  if (events.status().ok() && flags.follow) terminal.err << "The manager has ended.\n";
  return events.status();
}

}  // namespace

void AddEvents(CLI::App& root, Context& context) {
  auto flags = std::make_shared<EventFlags>();
  CLI::App* command =
      AddCommand(root, "events", "Show what happened in the manager, and what happens (manager)",
                 "  folioctl events\n"
                 "  folioctl events --follow --kind worker_fenced --kind worker_gone\n"
                 "  folioctl events --follow --kind all --output json");
  command->add_flag(
      "--follow", flags->follow,
      "Continue with what happens, until Ctrl-C (exit code 130) or until the manager\n"
      "has ended in order (exit code 0)");
  command->add_option("--after", flags->after, "Begin behind the event of this number")
      ->check([](const std::string& text) {
        uint64_t number = 0;
        if (absl::SimpleAtoi(text, &number)) return std::string();
        return absl::StrCat("\"", text, "\" is not the number of an event");
      });
  command
      ->add_option("--kind", flags->kinds,
                   absl::StrCat("Show this kind of event alone, or \"all\"; may be given several "
                                "times. Without it\nthose are left out that requests and steps "
                                "make, which are sequence_waiting\nto sequence_parked. One of:\n  ",
                                absl::StrJoin(KindNames(), "\n  ")))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  SetAction(command, ShowEvents, flags, context);
}

}  // namespace folio::cli
