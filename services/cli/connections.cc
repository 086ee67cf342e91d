// How a command reaches its process: from flags, the environment, and the named context.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/default_addresses.h"
#include "services/base/steady_time.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/options.h"

namespace folio::cli {
namespace {

std::string Environment(const char* name, std::string otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : std::move(otherwise);
}

// As --context says: a flag comes first, then the environment, then the named context. But a
// context that a flag names comes before the environment.
std::string Setting(const std::string& flag, const Context& context, const std::string& named,
                    const char* variable, const std::string& otherwise) {
  if (!flag.empty()) return flag;
  if (context.named_by_flag && !named.empty()) return named;
  return Environment(variable, named.empty() ? otherwise : named);
}

// Whether to encrypt. Naming a file or a name asks for it too.
absl::StatusOr<bool> WantsTls(const std::string& said, const client::TlsOptions& tls) {
  if (said.empty()) {
    return !(tls.ca_file.empty() && tls.cert_file.empty() && tls.key_file.empty() &&
             tls.server_name.empty());
  }
  if (said == "1" || said == "true") return true;
  if (said == "0" || said == "false") return false;
  return UsageError(
      absl::StrCat("$FOLIO_TLS or the context's \"tls\" is \"", said, "\"; give true or false"));
}

}  // namespace

void TlsFlags::Add(CLI::App& app) {
  app.add_flag_callback(
      "--tls", [this] { tls = "true"; },
      "Encrypt connections by TCP, with the system's authorities if no other flag of these\n"
      "is given. Default: $FOLIO_TLS, which is true or false. Each of the next four asks for\n"
      "it too. All of them may be in a context, as addresses may");
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
}

std::string Context::WorkerAddress() const {
  return Setting(address, *this, named.worker, "FOLIO_ADDRESS", DefaultWorkerAddress());
}

std::string Context::ManagerAddress() const {
  return Setting(address, *this, named.manager, "FOLIO_MANAGER_ADDRESS", DefaultManagerAddress());
}

absl::StatusOr<client::ConnectOptions> Context::Connection() const {
  client::ConnectOptions options;
  options.timeout = std::min(options.timeout, timeout);
  client::TlsOptions files;
  files.ca_file = Setting(tls.tls_ca, *this, named.tls_ca, "FOLIO_TLS_CA", "");
  files.cert_file = Setting(tls.tls_cert, *this, named.tls_cert, "FOLIO_TLS_CERT", "");
  files.key_file = Setting(tls.tls_key, *this, named.tls_key, "FOLIO_TLS_KEY", "");
  files.server_name =
      Setting(tls.tls_server_name, *this, named.tls_server_name, "FOLIO_TLS_SERVER_NAME", "");
  const auto wanted = WantsTls(Setting(tls.tls, *this, named.tls, "FOLIO_TLS", ""), files);
  if (!wanted.ok()) return wanted.status();
  if (*wanted) options.tls = std::move(files);
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
  std::string wanted = named_by_flag ? name : Environment("FOLIO_CONTEXT", "");
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
