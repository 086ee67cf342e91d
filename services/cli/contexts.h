// ContextFile is the file in which a user names the places of Folio's processes, so that a command
// needs no addresses. Each name stands for the addresses of a worker and a manager, for the
// encryption of connections, for the token of calls, and for the time that a call may take. One of
// the names may be the current one.
//
// The file is $FOLIO_CONFIG, or folio/config.json in $XDG_CONFIG_HOME or in ~/.config. It is JSON:
//
//   {"current": "lab", "contexts": {"lab": {"worker": "10.0.0.7:7001", "timeout": "30s"}}}
//
// Not thread-safe.
#ifndef FOLIO_SERVICES_CLI_CONTEXTS_H_
#define FOLIO_SERVICES_CLI_CONTEXTS_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace folio::cli {

// How to encrypt connections, as one place says: flags, the environment or a context. An empty text
// is a setting that the place does not have.
struct TlsSettings {
  std::string tls;                        // "true" or "false"
  std::string tls_ca, tls_cert, tls_key;  // files, as the flags of these names take them
  std::string tls_server_name;

  bool says_something() const;
};

// The token of calls, as one place says: itself, or a file with it.
struct TokenSettings {
  std::string token, token_file;

  bool says_something() const { return !(token.empty() && token_file.empty()); }
};

// An empty text is a setting that the context does not have.
struct NamedContext : TlsSettings, TokenSettings {
  bool encrypts() const { return TlsSettings::says_something(); }

  std::string worker;  // addresses, as --address takes them
  std::string manager;
  std::string timeout;  // as --timeout
};

// A variable's value, or `otherwise` if it is not set or empty.
std::string Environment(const char* name, std::string otherwise = "");

class ContextFile {
 public:
  // Reads the file, which need not exist. FAILED_PRECONDITION names the file, and what is wrong
  // with it. PERMISSION_DENIED: it cannot be read.
  static absl::StatusOr<ContextFile> Read();

  // The file's path. Empty if there is no directory for it.
  static std::string Path();

  // Replaces the file in one step. Its mode is 0600. FAILED_PRECONDITION: there is no directory for
  // it. PERMISSION_DENIED or UNKNOWN: it cannot be written.
  absl::Status Write() const;

  // The file's contents, with all settings.
  nlohmann::ordered_json ToJson() const;

  // NOT_FOUND names the contexts that there are.
  absl::StatusOr<NamedContext> Find(const std::string& name) const;

  std::map<std::string, NamedContext> contexts;
  std::string current;  // empty if there is none
};

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_CONTEXTS_H_
