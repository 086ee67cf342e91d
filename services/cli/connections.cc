// How a command reaches its process: from flags, the environment, and the named context.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/base/default_addresses.h"
#include "services/base/steady_time.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/options.h"

namespace folio::cli {
namespace {

// As --context says: a flag comes first, then the environment, then the named context. But a
// context that a flag names comes before the environment.
std::string Address(const Context& context, const std::string& named, const char* variable,
                    const std::string& otherwise) {
  if (!context.address.empty()) return context.address;
  if (context.named_by_flag && !named.empty()) return named;
  return Environment(variable, named.empty() ? otherwise : named);
}

TlsSettings FromFlags(const TlsFlags& flags) {
  return {flags.tls, flags.tls_ca.value_or(""), flags.tls_cert.value_or(""),
          flags.tls_key.value_or(""), flags.tls_server_name.value_or("")};
}

TlsSettings FromEnvironment() {
  return {Environment("FOLIO_TLS"), Environment("FOLIO_TLS_CA"), Environment("FOLIO_TLS_CERT"),
          Environment("FOLIO_TLS_KEY"), Environment("FOLIO_TLS_SERVER_NAME")};
}

// Whether a place that says something asks for TLS. Naming a file or a name asks for it too.
absl::StatusOr<bool> WantsTls(const TlsSettings& said) {
  if (said.tls.empty() || said.tls == "1" || said.tls == "true") return true;
  if (said.tls == "0" || said.tls == "false") return false;
  return UsageError(absl::StrCat("--tls or $FOLIO_TLS is \"", said.tls, "\"; give true or false"));
}

}  // namespace

void TlsFlags::Add(CLI::App& app) {
  app.add_flag(
      "--tls", tls,
      "Encrypt connections by TCP, with the system's authorities if no other flag of these\n"
      "is given, or not with --tls=false. Default: $FOLIO_TLS, which is true or false. Each\n"
      "of the next four asks for it too. All of them may be in a context, as addresses may");
  app.add_option("--tls_ca", tls_ca,
                 "File with authorities, as PEM, one of which has signed the server's\n"
                 "certificate. Default: $FOLIO_TLS_CA");
  app.add_option("--tls_cert", tls_cert,
                 "File with your own certificate, as PEM, for a server that asks for one.\n"
                 "Default: $FOLIO_TLS_CERT");
  app.add_option("--tls_key", tls_key,
                 "File with the key of that certificate, as PEM. Default: $FOLIO_TLS_KEY");
  app.add_option("--tls_server_name", tls_server_name,
                 "Name in the server's certificate, if it is not the host of the address.\n"
                 "Default: $FOLIO_TLS_SERVER_NAME");
  app.add_option("--token", token,
                 "Token of calls to a worker or a manager with --access. Default: $FOLIO_TOKEN.\n"
                 "Other users of the machine can see a flag, so prefer the next one");
  app.add_option("--token_file", token_file,
                 "File with the token alone. Default: $FOLIO_TOKEN_FILE. Both may be in a context");
}

std::string Context::WorkerAddress() const {
  return Address(*this, named.worker, "FOLIO_ADDRESS", DefaultWorkerAddress());
}

std::string Context::ManagerAddress() const {
  return Address(*this, named.manager, "FOLIO_MANAGER_ADDRESS", DefaultManagerAddress());
}

TokenSettings Context::Token() const {
  TokenSettings flags = {tls.token.value_or(""), tls.token_file.value_or("")};
  TokenSettings variables = {Environment("FOLIO_TOKEN"), Environment("FOLIO_TOKEN_FILE")};
  if (flags.says_something()) return flags;
  const TokenSettings& context = named;
  if (named_by_flag && context.says_something()) return context;
  return variables.says_something() ? variables : context;
}

absl::StatusOr<client::ConnectOptions> Context::Connection() const {
  client::ConnectOptions options;
  options.timeout = std::min(options.timeout, timeout);
  const TokenSettings said = Token();
  options.token = said.token;
  options.token_file = said.token_file;
  std::vector<TlsSettings> places = {FromFlags(tls), FromEnvironment()};
  places.insert(places.begin() + (named_by_flag ? 1 : 2), named);
  const auto first = std::find_if(places.begin(), places.end(),
                                  [](auto& place) { return place.says_something(); });
  if (first == places.end()) return options;
  // The first place that says something decides, and the others complete it.
  const auto wanted = WantsTls(*first);
  if (!wanted.ok()) return wanted.status();
  if (!*wanted) return options;
  const auto find = [&places](std::string TlsSettings::*setting) -> std::string {
    const auto has = [setting](const TlsSettings& place) { return !(place.*setting).empty(); };
    const auto found = std::find_if(places.begin(), places.end(), has);
    return found == places.end() ? "" : (*found).*setting;
  };
  options.tls =
      client::TlsOptions{find(&TlsSettings::tls_ca), find(&TlsSettings::tls_cert),
                         find(&TlsSettings::tls_key), find(&TlsSettings::tls_server_name)};
  return options;
}

absl::StatusOr<std::unique_ptr<client::Client>> Context::ConnectWorker() const {
  const auto options = Connection();
  if (!options.ok()) return options.status();
  return client::Client::Connect(WorkerAddress(), *options);
}

absl::StatusOr<std::unique_ptr<client::AdminClient>> Context::ConnectManager() const {
  const auto options = Connection();
  if (!options.ok()) return options.status();
  return client::AdminClient::Connect(ManagerAddress(), *options);
}

absl::Status Context::UseNamed(const std::string& name) {
  named_by_flag = !name.empty();
  std::string wanted = named_by_flag ? name : Environment("FOLIO_CONTEXT");
  const absl::StatusOr<ContextFile> file = ContextFile::Read();
  if (!file.ok()) return file.status();
  if (wanted.empty()) wanted = file->current;
  if (wanted.empty()) return absl::OkStatus();
  absl::StatusOr<NamedContext> found = file->Find(wanted);
  if (!found.ok()) return found.status();
  named = *std::move(found);
  if (timeout == absl::InfiniteDuration() && !named.timeout.empty()) {
    ParseTimeout(named.timeout, &timeout);  // the file's check has accepted it
  }
  return absl::OkStatus();
}

client::CallOptions Context::Call() const {
  client::CallOptions options;
  options.deadline = SteadyNow() + timeout;
  return options;
}

}  // namespace folio::cli
