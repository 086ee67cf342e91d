// RandomBytes gives bytes that cannot be guessed, for tokens and ids.
#ifndef FOLIO_SERVICES_BASE_RANDOM_BYTES_H_
#define FOLIO_SERVICES_BASE_RANDOM_BYTES_H_

#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "services/base/check.h"

namespace folio {

// At most 256, which the kernel gives whole. Any thread.
inline std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  FOLIO_CHECK(getrandom(bytes.data(), count, 0) == static_cast<ssize_t>(count));
  return bytes;
}

// The same as a number. Any thread.
inline uint32_t RandomWord() {
  uint32_t word = 0;
  std::memcpy(&word, RandomBytes(sizeof(word)).data(), sizeof(word));
  return word;
}

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_RANDOM_BYTES_H_
