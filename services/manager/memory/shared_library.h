// SharedLibrary is a shared library that may or may not be installed, and its functions by name.
#ifndef FOLIO_SERVICES_MANAGER_MEMORY_SHARED_LIBRARY_H_
#define FOLIO_SERVICES_MANAGER_MEMORY_SHARED_LIBRARY_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace folio::manager {

// The library stays loaded until the process ends, because drivers start threads that cannot be
// stopped.
class SharedLibrary {
 public:
  // `name` is as for dlopen, which searches for it as the loader does. NOT_FOUND says why it
  // failed.
  static absl::StatusOr<SharedLibrary> Open(const std::string& name);

  const std::string& name() const { return name_; }
  // Sets `function`, whose type must be exactly the function's. NOT_FOUND if the library lacks it.
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

#endif  // FOLIO_SERVICES_MANAGER_MEMORY_SHARED_LIBRARY_H_
