// folioctl config shows and changes the named contexts of a user. See contexts.h.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>

#include "services/cli/command.h"
#include "services/cli/contexts.h"
#include "services/cli/exit_code.h"
#include "services/cli/options.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

struct ContextFlags {
  std::string name;
  std::optional<std::string> worker, manager, timeout;
};

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

// The authorities that a context trusts, or a dash if it does not encrypt.
std::string TlsOf(const NamedContext& one) {
  if (one.tls == "false") return "-";
  if (!one.tls_ca.empty()) return one.tls_ca;
  return one.encrypts() ? "system" : "-";
}

// A context is of use from every folder.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.string();
}

// Takes the flags for the connections of other commands. An empty one takes the setting
// away.
void KeepConnection(const TlsFlags& flags, NamedContext* one) {
  if (!flags.tls.empty()) one->tls = flags.tls;
  const auto keep_file = [](const std::optional<std::string>& given, std::string* kept) {
    if (given.has_value()) *kept = given->empty() ? "" : Absolute(*given);
  };
  keep_file(flags.tls_ca, &one->tls_ca);
  keep_file(flags.tls_cert, &one->tls_cert);
  keep_file(flags.tls_key, &one->tls_key);
  if (flags.tls_server_name.has_value()) one->tls_server_name = *flags.tls_server_name;
  // A context has one of these two.
  if (flags.token.has_value() || flags.token_file.has_value())
    one->token = flags.token.value_or("");
  if (flags.token.has_value()) one->token_file.clear();
  keep_file(flags.token_file, &one->token_file);
}

absl::Status View(Context& context) {
  const auto file = ContextFile::Read();
  if (!file.ok()) return file.status();
  // The file itself is JSON.
  Output output = context.output;
  if (!output.structured()) output.format = OutputFormat::kJson;
  return WriteDocument(file->ToJson(), output, context.terminal.out);
}

absl::Status GetContexts(Context& context) {
  const auto file = ContextFile::Read();
  if (!file.ok()) return file.status();
  if (context.structured()) return View(context);
  if (file->contexts.empty()) {
    context.terminal.out << "There is no context. Make one with folioctl config set-context.\n";
    return absl::OkStatus();
  }
  Table table({{"current"}, {"name"}, {"worker"}, {"manager"}, {"timeout"}, {"tls"}});
  for (const auto& [name, one] : file->contexts) {
    table.Row({name == file->current ? "*" : "", name, OrDash(one.worker), OrDash(one.manager),
               OrDash(one.timeout), TlsOf(one)});
  }
  context.terminal.out << context.terminal.Printable(table.Render(context.terminal));
  return absl::OkStatus();
}

absl::Status CurrentContext(Context& context) {
  const auto file = ContextFile::Read();
  if (!file.ok()) return file.status();
  if (file->current.empty()) return absl::NotFoundError("no context is the current one");
  context.terminal.out << file->current << "\n";
  return absl::OkStatus();
}

absl::Status UseContext(const ContextFlags& flags, Context& context) {
  auto file = ContextFile::Read();
  if (!file.ok()) return file.status();
  if (const auto found = file->Find(flags.name); !found.ok()) return found.status();
  file->current = flags.name;
  if (absl::Status status = file->Write(); !status.ok()) return status;
  context.terminal.out << "The current context is \"" << flags.name << "\" now.\n";
  return absl::OkStatus();
}

absl::Status SetContext(const ContextFlags& flags, Context& context) {
  if (flags.name.empty()) return UsageError("a context needs a name");
  absl::Duration timeout;
  if (!flags.timeout.value_or("").empty() && !ParseTimeout(*flags.timeout, &timeout)) {
    return UsageError("--call_timeout \"" + *flags.timeout + "\" is not a duration like 30s");
  }
  if (const std::string& tls = context.tls.tls; !(tls.empty() || tls == "true" || tls == "false")) {
    return UsageError("--tls is \"" + tls + "\"; give true or false");
  }
  auto file = ContextFile::Read();
  if (!file.ok()) return file.status();
  NamedContext& one = file->contexts[flags.name];
  if (flags.worker.has_value()) one.worker = *flags.worker;
  if (flags.manager.has_value()) one.manager = *flags.manager;
  if (flags.timeout.has_value()) one.timeout = *flags.timeout;
  KeepConnection(context.tls, &one);
  // The first one is meant to be used.
  if (file->contexts.size() == 1) file->current = flags.name;
  if (absl::Status status = file->Write(); !status.ok()) return status;
  const bool current = file->current == flags.name;
  context.terminal.out << "Context \"" << flags.name << "\" is set"
                       << (current ? ", and is the current one.\n" : ".\n");
  return absl::OkStatus();
}

absl::Status DeleteContext(const ContextFlags& flags, Context& context) {
  auto file = ContextFile::Read();
  if (!file.ok()) return file.status();
  if (const auto found = file->Find(flags.name); !found.ok()) return found.status();
  file->contexts.erase(flags.name);
  if (file->current == flags.name) file->current.clear();
  if (absl::Status status = file->Write(); !status.ok()) return status;
  context.terminal.out << "Context \"" << flags.name << "\" is deleted.\n";
  return absl::OkStatus();
}

using Flags = std::shared_ptr<ContextFlags>;

void RunBy(CLI::App* command, absl::Status (*run)(Context&), bool gives_data, Context& context) {
  command->callback([run, gives_data, &context] {
    context.needs_addresses = false;
    context.gives_data = gives_data;
    context.action = [run, &context] { return run(context); };
  });
}

void RunBy(CLI::App* command, absl::Status (*run)(const ContextFlags&, Context&),
           const Flags& flags, Context& context) {
  command->add_option("name", flags->name, "The context's name")->required();
  command->callback([run, flags, &context] {
    context.needs_addresses = context.gives_data = false;
    context.action = [run, flags, &context] { return run(*flags, context); };
  });
}

}  // namespace

void AddConfig(CLI::App& root, Context& context) {
  CLI::App* config = AddCommand(
      root, "config",
      "Named contexts, which hold the addresses of a worker and a manager, and the flags\n"
      "--tls, --tls_* and --token* that are given with set-context. They are in $FOLIO_CONFIG, or "
      "in\n"
      "folio/config.json of $XDG_CONFIG_HOME or ~/.config",
      "  folioctl config set-context lab --worker 10.0.0.7:7001 --manager 10.0.0.7:7006\n"
      "  folioctl config use-context lab\n"
      "  folioctl --context lab pools");
  config->require_subcommand(1);
  const auto flags = std::make_shared<ContextFlags>();
  RunBy(AddCommand(*config, "view", "Show the file", "  folioctl config view --output yaml"), View,
        /*gives_data=*/true, context);
  RunBy(AddCommand(*config, "get-contexts", "List the contexts", "  folioctl config get-contexts"),
        GetContexts, /*gives_data=*/true, context);
  RunBy(AddCommand(*config, "current-context", "Show the name of the current context",
                   "  folioctl config current-context"),
        CurrentContext, /*gives_data=*/false, context);
  RunBy(AddCommand(*config, "use-context", "Make a context the current one",
                   "  folioctl config use-context lab"),
        UseContext, flags, context);
  RunBy(AddCommand(*config, "delete-context", "Delete a context",
                   "  folioctl config delete-context lab"),
        DeleteContext, flags, context);
  CLI::App* set =
      AddCommand(*config, "set-context", "Make a context, or change the settings that are given",
                 "  folioctl config set-context lab --worker 10.0.0.7:7001 --tls_ca ca.pem\n"
                 "  folioctl config set-context lab --call_timeout 30s");
  RunBy(set, SetContext, flags, context);
  set->add_option("--worker", flags->worker, "Address of the worker: unix:/path or host:port");
  set->add_option("--manager", flags->manager, "Address of the manager, as above");
  set->add_option("--call_timeout", flags->timeout, "Time that a call may take, such as 30s");
}

}  // namespace folio::cli
