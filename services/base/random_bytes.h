// RandomBytes gives bytes that cannot be guessed, for tokens and ids.
#ifndef FOLIO_SERVICES_BASE_RANDOM_BYTES_H_
#define FOLIO_SERVICES_BASE_RANDOM_BYTES_H_

#include <sys/random.h>

#include <cstddef>
#include <string>

#include "services/base/check.h"

namespace folio {

// At most 256, which the kernel gives whole. Any thread.
inline std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  FOLIO_CHECK(getrandom(bytes.data(), count, 0) == static_cast<ssize_t>(count));
  return bytes;
}

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_RANDOM_BYTES_H_
