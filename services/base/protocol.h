// This header has the constants that managers and workers must agree on and that no message
// carries.
#ifndef FOLIO_SERVICES_BASE_PROTOCOL_H_
#define FOLIO_SERVICES_BASE_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

namespace folio {

// The version of the KvManager service. A worker attaches only to a manager of its own version.
inline constexpr uint32_t kProtocolVersion = 3;

// The limit for labels of sequences and names of workers, which are kept and shown to operators.
inline constexpr size_t kMaxLabelBytes = 256;

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_PROTOCOL_H_
