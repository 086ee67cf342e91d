// TlsFlags are the flags of folioctl that say how connections are encrypted, and which token calls
// carry.
#ifndef FOLIO_SERVICES_CLI_TLS_FLAGS_H_
#define FOLIO_SERVICES_CLI_TLS_FLAGS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace folio::cli {

// They have the names of a context's settings.
struct TlsFlags {
  std::string tls;  // "true" or "false", or empty if it is not given
  std::optional<std::string> tls_ca, tls_cert, tls_key, tls_server_name;
  std::optional<std::string> token, token_file;

  // This must outlive the parsing.
  void Add(CLI::App& app);
};

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_TLS_FLAGS_H_
