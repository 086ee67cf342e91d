// Shared memory of emulated kernels lies in the memory of each thread of the host, which glibc
// takes from its stack. Civetweb makes threads whose stacks are too small for it, and could not
// start them.
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstddef>

extern "C" int pthread_attr_setstacksize(pthread_attr_t* attributes, size_t bytes) noexcept {
  using Function = int (*)(pthread_attr_t*, size_t);
  static const auto next =
      reinterpret_cast<Function>(dlsym(RTLD_NEXT, "pthread_attr_setstacksize"));
  return next(attributes, std::max(bytes, size_t{2} << 20));
}
