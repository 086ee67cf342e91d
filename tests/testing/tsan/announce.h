// This header has what the files of this folder share. Each of them defines functions of a library
// that is not built for ThreadSanitizer. The definitions stand before those of the shared library,
// also for the calls that the libraries make themselves, because the programs export them
// (ENABLE_EXPORTS). They call the library's own function and tell ThreadSanitizer what it orders.
#ifndef FOLIO_TESTS_TESTING_TSAN_ANNOUNCE_H_
#define FOLIO_TESTS_TESTING_TSAN_ANNOUNCE_H_

#include <dlfcn.h>

#include "services/base/check.h"

extern "C" {
// All that a thread did before it releases an address happens before all that another thread does
// after it acquires the same address later.
void __tsan_acquire(void* addr);
void __tsan_release(void* addr);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}

namespace folio::testing {

// The library's own function of this mangled name.
template <typename Function>
Function* Real(const char* name) {
  void* symbol = dlsym(RTLD_NEXT, name);
  FOLIO_CHECK(symbol != nullptr);
  return reinterpret_cast<Function*>(symbol);
}

// While it lives, the reads and writes of this thread are not looked at.
class NotLookedAt {
 public:
  NotLookedAt() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~NotLookedAt() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  NotLookedAt(const NotLookedAt&) = delete;
  NotLookedAt& operator=(const NotLookedAt&) = delete;
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_TESTING_TSAN_ANNOUNCE_H_
