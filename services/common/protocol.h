// What managers and workers must agree on and no message carries. Header-only.
#ifndef FOLIO_SERVICES_COMMON_PROTOCOL_H_
#define FOLIO_SERVICES_COMMON_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

namespace folio {

// Of the KvManager service; a worker attaches only to a manager of its own version.
inline constexpr uint32_t kProtocolVersion = 3;

// Labels of sequences and names of workers: they are kept, and shown to operators.
inline constexpr size_t kMaxLabelBytes = 256;

}  // namespace folio

#endif  // FOLIO_SERVICES_COMMON_PROTOCOL_H_
