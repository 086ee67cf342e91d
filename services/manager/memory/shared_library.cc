#include "services/manager/memory/shared_library.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace folio::manager {

absl::StatusOr<SharedLibrary> SharedLibrary::Open(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return SharedLibrary(name, handle);
  const char* why = dlerror();
  return absl::NotFoundError(why != nullptr ? why : name);
}

absl::StatusOr<void*> SharedLibrary::Address(const char* symbol) const {
  void* address = dlsym(handle_, symbol);
  if (address != nullptr) return address;
  return absl::NotFoundError(absl::StrCat(name_, " has no function ", symbol));
}

}  // namespace folio::manager
