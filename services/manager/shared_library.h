// A shared library that may be there or not, and its functions by name.
#ifndef FOLIO_SERVICES_MANAGER_SHARED_LIBRARY_H_
#define FOLIO_SERVICES_MANAGER_SHARED_LIBRARY_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace folio::manager {

// Stays loaded until the process ends: drivers have threads that nobody can unload.
class SharedLibrary {
 public:
  // `name` as for dlopen: a file name is searched for as the loader does. NOT_FOUND has its reason.
  static absl::StatusOr<SharedLibrary> Open(const std::string& name);

  const std::string& name() const { return name_; }
  // Sets `function`, a pointer to one of exactly this type. NOT_FOUND when the library has none.
  template <typename Function>
  absl::Status Find(const char* symbol, Function** function) const {
    auto found = Address(symbol);
    if (!found.ok()) return found.status();
    *function = reinterpret_cast<Function*>(*found);
    return absl::OkStatus();
  }

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  absl::StatusOr<void*> Address(const char* symbol) const;

  std::string name_;
  void* handle_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_SHARED_LIBRARY_H_
