#include "services/cli/app.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/base/default_addresses.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/options.h"
#include "services/runtime/version.h"

namespace folio::cli {
namespace {

OutputFormat FormatNamed(const std::string& name) {
  if (name == "wide") return OutputFormat::kWide;
  if (name == "json") return OutputFormat::kJson;
  return name == "yaml" ? OutputFormat::kYaml : OutputFormat::kTable;
}

struct GlobalFlags {
  std::string context;
  std::string output;  // empty if it is not given
};

// A wrong expression is found here, before anything is sent.
void SetQuery(const std::string& expression, Context& context) {
  auto query = JsonQuery::Compile(expression);
  if (!query.ok()) {
    throw CLI::ValidationError("--query", std::string(query.status().message()));
  }
  context.output.query = *std::move(query);
}

// --query is of use for answers in JSON alone, so it asks for them.
absl::Status CompleteOutput(const GlobalFlags& flags, Context& context) {
  if (context.output.query == nullptr) return absl::OkStatus();
  if (!context.gives_data) {
    return UsageError("--query selects from JSON, and this command prints text; leave it out");
  }
  if (flags.output.empty()) context.output.format = OutputFormat::kJson;
  if (context.structured()) return absl::OkStatus();
  return UsageError(absl::StrCat("--query selects from JSON, and --output ", flags.output,
                                 " is for people; use --output json or yaml, or leave it out"));
}

void AddGlobalOptions(CLI::App& app, GlobalFlags& flags, Context& context) {
  app.add_option(
      "--address", context.address,
      "Address of the process that the command talks to: unix:/path or host:port.\n"
      "Default: worker $FOLIO_ADDRESS or " +
          DefaultWorkerAddress() + ",\n         manager $FOLIO_MANAGER_ADDRESS or " +
          DefaultManagerAddress() +
          "\nA manager that has --admin_listen serves folioctl at those addresses alone");
  app.add_option("--context", flags.context,
                 "Named context that has the addresses (see folioctl config). Default:\n"
                 "$FOLIO_CONTEXT or the current one. An address is the first one of --address,\n"
                 "--context, the variables, the default context and the default");
  context.tls.Add(app);
  app.add_option_function<std::string>(
         "--output",
         [&flags, &context](const std::string& name) {
           flags.output = name;
           context.output.format = FormatNamed(name);
         },
         "table, wide (a table with further columns), json or yaml (the protocol's messages, one\n"
         "event per line or document for generate, chat and events)")
      ->check(CLI::IsMember({"table", "wide", "json", "yaml"}))
      ->default_str("table");
  app.add_option_function<std::string>(
      "--query", [&context](const std::string& text) { SetQuery(text, context); },
      "Print only what this expression of JMESPath selects, such as 'pools[].pool_id'.\n"
      "Without --output it is JSON. An event for which it gives null is left out. Numbers\n"
      "of 64 bits are strings: write to_number(x)");
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

CLI::App* AddCommand(CLI::App& root, const std::string& name, const std::string& description,
                     const std::string& examples) {
  CLI::App* command = root.add_subcommand(name, description);
  command->footer(absl::StrCat("Examples:\n", examples, "\n", kExitCodesHelp));
  return command;
}

void SetAction(CLI::App* command, absl::Status (*run)(Context&), Context& context) {
  command->callback([run, &context] { context.action = [run, &context] { return run(context); }; });
}

int Run(const std::vector<std::string>& arguments, Terminal& terminal) {
  CLI::App app("Talks to Folio: text from workers, facts about pages from managers.", "folioctl");
  Context context{terminal};
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(absl::StrCat("folioctl COMMAND --help tells more.\n", kExitCodesHelp));
  GlobalFlags flags;
  AddGlobalOptions(app, flags, context);
  for (auto* add :
       {AddGenerate,   AddChat,       AddCompare, AddBench,  AddScore,         AddTokenize,
        AddDetokenize, AddModel,      AddSize,    AddTop,    AddPools,         AddPages,
        AddSequences,  AddSequence,   AddTenants, AddQuota,  AddExplain,       AddWorkers,
        AddLeases,     AddQuarantine, AddEvents,  AddClose,  AddPark,          AddPin,
        AddEvict,      AddDrain,      AddHealth,  AddDoctor, AddSupportBundle, AddConfig,
        AddToken,      AddCompletion, AddMan}) {
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

  absl::Status status = CompleteOutput(flags, context);
  if (status.ok() && context.needs_addresses) status = context.UseNamed(flags.context);
  if (status.ok()) status = context.action();
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
