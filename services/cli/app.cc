#include "services/cli/app.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "services/base/default_addresses.h"
#include "services/base/steady_time.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/options.h"
#include "services/runtime/version.h"

namespace folio::cli {
namespace {

std::string Environment(const char* name, std::string otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : std::move(otherwise);
}

client::ConnectOptions ConnectWithin(absl::Duration timeout) {
  client::ConnectOptions options;
  options.timeout = std::min(options.timeout, timeout);
  return options;
}

void AddGlobalOptions(CLI::App& app, Context& context) {
  app.add_option(
      "--address", context.address,
      "Address of the process that the command talks to: unix:/path or host:port.\n"
      "Default: worker $FOLIO_ADDRESS or " +
          DefaultWorkerAddress() + ",\n         manager $FOLIO_MANAGER_ADDRESS or " +
          DefaultManagerAddress() +
          "\nA manager that has --admin_listen serves folioctl at those addresses alone");
  app.add_option_function<std::string>(
         "--output", [&context](const std::string& format) { context.json = format == "json"; },
         "table, or json (the protocol's messages, one event per line for generate, chat and "
         "events)")
      ->check(CLI::IsMember({"table", "json"}))
      ->default_str("table");
  app.add_option_function<std::string>(
      "--timeout",
      [&context](const std::string& text) {
        if (!ParseTimeout(text, &context.timeout)) {
          throw CLI::ValidationError("--timeout",
                                     "\"" + text + "\" is not a duration like 30s or 1m");
        }
      },
      "Give up on a call after this time, e.g. 30s (default: never)");
  app.set_version_flag(
      "--version", [] { return absl::StrCat("folioctl ", BuildDescription()); },
      "Print the version and the commit, and exit");
}

}  // namespace

std::string Context::WorkerAddress() const {
  return address.empty() ? Environment("FOLIO_ADDRESS", DefaultWorkerAddress()) : address;
}

std::string Context::ManagerAddress() const {
  return address.empty() ? Environment("FOLIO_MANAGER_ADDRESS", DefaultManagerAddress()) : address;
}

absl::StatusOr<std::unique_ptr<client::Client>> Context::ConnectWorker() const {
  return client::Client::Connect(WorkerAddress(), ConnectWithin(timeout));
}

absl::StatusOr<std::unique_ptr<client::AdminClient>> Context::ConnectManager() const {
  return client::AdminClient::Connect(ManagerAddress(), ConnectWithin(timeout));
}

client::CallOptions Context::Call() const {
  client::CallOptions options;
  options.deadline = SteadyNow() + timeout;
  return options;
}

CLI::App* AddCommand(CLI::App& root, const std::string& name, const std::string& description,
                     const std::string& examples) {
  CLI::App* command = root.add_subcommand(name, description);
  command->footer(absl::StrCat("Examples:\n", examples, "\n", kExitCodesHelp));
  return command;
}

int Run(const std::vector<std::string>& arguments, Terminal& terminal) {
  CLI::App app("Talks to Folio: text from workers, facts about pages from managers.", "folioctl");
  Context context{terminal};
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(absl::StrCat("folioctl COMMAND --help tells more.\n", kExitCodesHelp));
  AddGlobalOptions(app, context);
  for (auto* add : {AddGenerate, AddChat, AddCompare, AddBench, AddScore, AddTokenize,
                    AddDetokenize, AddModel, AddSize, AddPools, AddSequences, AddSequence,
                    AddExplain, AddWorkers, AddLeases, AddQuarantine, AddEvents, AddHealth}) {
    add(app, context);
  }

  std::vector<std::string> reversed = NormalizeFlags(arguments);
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::Success& asked) {  // for help or for the version
    return app.exit(asked, terminal.out, terminal.err);
  } catch (const CLI::Error& error) {
    const bool unknown = app.get_subcommands().empty() && !app.remaining().empty();
    terminal.err << "folioctl: "
                 << (unknown ? absl::StrCat("no command or flag \"", app.remaining()[0], "\"")
                             : std::string(error.what()))
                 << "\nRun folioctl --help for how to use it.\n";
    return kExitUsage;
  }

  const absl::Status status = context.action();
  terminal.out.flush();
  if (status.ok()) return 0;
  if (absl::IsCancelled(status) && terminal.interrupts.raised()) return kExitInterrupted;
  if (IsUsageError(status)) {
    terminal.err << "folioctl: " << status.message()
                 << "\nRun folioctl --help for how to use it.\n";
    return kExitUsage;
  }
  terminal.err << "folioctl: " << absl::StatusCodeToString(status.code()) << ": "
               << status.message() << "\n";
  return ExitCode(status);
}

}  // namespace folio::cli
