// How a command reaches its process: from flags, the environment, and the named context.
#include <algorithm>
#include <cstdlib>
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

std::string Environment(const char* name, std::string otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : std::move(otherwise);
}

// As --context says: a flag comes first, then the environment, then the named context. But a
// context that a flag names comes before the environment.
std::string Address(const std::string& flag, const Context& context, const std::string& named,
                    const char* variable, const std::string& otherwise) {
  if (!flag.empty()) return flag;
  if (context.named_by_flag && !named.empty()) return named;
  return Environment(variable, named.empty() ? otherwise : named);
}

// Settings of encryption from one place. An empty text is a setting that it does not have.
struct TlsSettings {
  std::string tls, ca, cert, key, server_name;

  bool says_something() const {
    return !(tls.empty() && ca.empty() && cert.empty() && key.empty() && server_name.empty());
  }
  void FillFrom(const TlsSettings& later) {
    for (const auto member :
         {&TlsSettings::ca, &TlsSettings::cert, &TlsSettings::key, &TlsSettings::server_name}) {
      if ((this->*member).empty()) this->*member = later.*member;
    }
  }
};

TlsSettings FromFlags(const TlsFlags& flags) {
  return {flags.tls, flags.tls_ca.value_or(""), flags.tls_cert.value_or(""),
          flags.tls_key.value_or(""), flags.tls_server_name.value_or("")};
}

TlsSettings FromContext(const NamedContext& named) {
  return {named.tls, named.tls_ca, named.tls_cert, named.tls_key, named.tls_server_name};
}

TlsSettings FromEnvironment() {
  return {Environment("FOLIO_TLS", ""), Environment("FOLIO_TLS_CA", ""),
          Environment("FOLIO_TLS_CERT", ""), Environment("FOLIO_TLS_KEY", ""),
          Environment("FOLIO_TLS_SERVER_NAME", "")};
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
}

std::string Context::WorkerAddress() const {
  return Address(address, *this, named.worker, "FOLIO_ADDRESS", DefaultWorkerAddress());
}

std::string Context::ManagerAddress() const {
  return Address(address, *this, named.manager, "FOLIO_MANAGER_ADDRESS", DefaultManagerAddress());
}

absl::StatusOr<client::ConnectOptions> Context::Connection() const {
  client::ConnectOptions options;
  options.timeout = std::min(options.timeout, timeout);
  std::vector<TlsSettings> places = {FromFlags(tls), FromEnvironment()};
  places.insert(places.begin() + (named_by_flag ? 1 : 2), FromContext(named));
  const auto first = std::find_if(places.begin(), places.end(),
                                  [](auto& place) { return place.says_something(); });
  if (first == places.end()) return options;
  // The first place that says something decides, and the others complete it.
  const auto wanted = WantsTls(*first);
  if (!wanted.ok()) return wanted.status();
  if (!*wanted) return options;
  TlsSettings all;
  for (const TlsSettings& place : places) all.FillFrom(place);
  options.tls = client::TlsOptions{all.ca, all.cert, all.key, all.server_name};
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
