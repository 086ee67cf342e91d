// Context is shared by all folioctl commands. This header also has the list of commands.
#ifndef FOLIO_SERVICES_CLI_COMMAND_H_
#define FOLIO_SERVICES_CLI_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/cli/contexts.h"
#include "services/cli/output.h"
#include "services/cli/terminal.h"
#include "services/cli/tls_flags.h"
#include "services/client/admin_client.h"
#include "services/client/client.h"

namespace folio::cli {

// It must outlive parsing and the action.
struct Context {
  Terminal& terminal;
  std::string address = {};  // if empty, the environment's or the default of the process
  Output output = {};
  absl::Duration timeout = absl::InfiniteDuration();
  TlsFlags tls = {};
  // The settings of the named context, and whether a flag named it.
  NamedContext named = {};
  bool named_by_flag = false;
  bool needs_addresses = true;  // false for a command that talks to no process
  bool gives_data = true;       // false for one that prints text whatever --output says

  // Set by the command that was named; run after parsing.
  std::function<absl::Status()> action = {};

  // Reads the named context: `name`, or $FOLIO_CONTEXT, or the current one of the file. NOT_FOUND:
  // there is no such context. The errors of ContextFile::Read.
  absl::Status UseNamed(const std::string& name);
  bool structured() const { return output.structured(); }
  bool wide() const { return output.format == OutputFormat::kWide; }
  // The answer for programs, see output.h.
  template <typename Answer>
  absl::Status Print(const Answer& answer) const {
    return WriteDocument(answer, output, terminal.out);
  }
  std::string WorkerAddress() const;
  std::string ManagerAddress() const;
  // The token of calls, by the first place that has one.
  TokenSettings Token() const;
  // How to connect to either. A usage error if $FOLIO_TLS or the context's "tls" is neither true
  // nor false.
  absl::StatusOr<client::ConnectOptions> Connection() const;
  absl::StatusOr<std::unique_ptr<client::Client>> ConnectWorker() const;
  absl::StatusOr<std::unique_ptr<client::AdminClient>> ConnectManager() const;
  // The deadline of a call that begins now.
  client::CallOptions Call() const;
};

// Adds a subcommand with examples (one a line) and the exit codes below its help.
CLI::App* AddCommand(CLI::App& root, const std::string& name, const std::string& description,
                     const std::string& examples);

// Has the command that is named on the command line call `run`, with its flags if it has some.
void SetAction(CLI::App* command, absl::Status (*run)(Context&), Context& context);
template <typename Flags>
void SetAction(CLI::App* command, absl::Status (*run)(const Flags&, Context&),
               const std::shared_ptr<Flags>& flags, Context& context) {
  command->callback([run, flags, &context] {
    context.action = [run, flags, &context] { return run(*flags, context); };
  });
}

// Each of these adds one command. It declares flags and sets `action`.
void AddGenerate(CLI::App& root, Context& context);
void AddChat(CLI::App& root, Context& context);
void AddCompare(CLI::App& root, Context& context);
void AddBench(CLI::App& root, Context& context);
void AddScore(CLI::App& root, Context& context);
void AddTokenize(CLI::App& root, Context& context);
void AddDetokenize(CLI::App& root, Context& context);
void AddModel(CLI::App& root, Context& context);
void AddSize(CLI::App& root, Context& context);
void AddPools(CLI::App& root, Context& context);
void AddSequences(CLI::App& root, Context& context);
void AddSequence(CLI::App& root, Context& context);
void AddTop(CLI::App& root, Context& context);
void AddPages(CLI::App& root, Context& context);
void AddTenants(CLI::App& root, Context& context);
void AddQuota(CLI::App& root, Context& context);
void AddClose(CLI::App& root, Context& context);
void AddPark(CLI::App& root, Context& context);
void AddPin(CLI::App& root, Context& context);  // and unpin
void AddEvict(CLI::App& root, Context& context);
void AddDrain(CLI::App& root, Context& context);
void AddExplain(CLI::App& root, Context& context);
void AddWorkers(CLI::App& root, Context& context);
void AddLeases(CLI::App& root, Context& context);
void AddQuarantine(CLI::App& root, Context& context);
void AddEvents(CLI::App& root, Context& context);
void AddHealth(CLI::App& root, Context& context);
void AddDoctor(CLI::App& root, Context& context);
void AddSupportBundle(CLI::App& root, Context& context);
void AddConfig(CLI::App& root, Context& context);
void AddToken(CLI::App& root, Context& context);
void AddCompletion(CLI::App& root, Context& context);
void AddMan(CLI::App& root, Context& context);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_COMMAND_H_
