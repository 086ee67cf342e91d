// This header has the addresses where Folio's processes listen, and where its tools connect, when
// no address is given.
//
// Sockets lie in one directory, which is $XDG_RUNTIME_DIR/folio if that variable is set (a user's
// own processes) and /run/folio otherwise (a system service). The process that listens creates the
// directory. An address is "unix:/absolute/path" or "host:port".
#ifndef FOLIO_SERVICES_BASE_DEFAULT_ADDRESSES_H_
#define FOLIO_SERVICES_BASE_DEFAULT_ADDRESSES_H_

#include <cstdlib>
#include <string>

namespace folio {

inline std::string DefaultRuntimeDirectory() {
  const char* base = std::getenv("XDG_RUNTIME_DIR");
  if (base == nullptr || *base != '/') return "/run/folio";
  return std::string(base) + "/folio";
}

// gRPC of the manager: KvManager, Admin, health, reflection.
inline std::string DefaultManagerAddress() {
  return "unix:" + DefaultRuntimeDirectory() + "/manager.sock";
}

// gRPC of the worker: Inference, health, reflection.
inline std::string DefaultWorkerAddress() {
  return "unix:" + DefaultRuntimeDirectory() + "/worker.sock";
}

// Path (no "unix:") of the manager's socket that hands pool descriptors to workers.
inline std::string DefaultExportSocketPath() { return DefaultRuntimeDirectory() + "/export.sock"; }

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_DEFAULT_ADDRESSES_H_
