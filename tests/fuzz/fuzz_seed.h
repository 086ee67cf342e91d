// FromEnvironment reads how long a random test runs, and from which seed.
#ifndef FOLIO_TESTS_FUZZ_FUZZ_SEED_H_
#define FOLIO_TESTS_FUZZ_FUZZ_SEED_H_

#include <cstdint>
#include <cstdlib>

namespace folio::cache {

inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace folio::cache

#endif  // FOLIO_TESTS_FUZZ_FUZZ_SEED_H_
