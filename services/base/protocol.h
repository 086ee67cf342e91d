// This header has the constants that managers and workers must agree on and that no message
// carries.
#ifndef FOLIO_SERVICES_BASE_PROTOCOL_H_
#define FOLIO_SERVICES_BASE_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

namespace folio {

// The versions of the KvManager service that this program speaks, from the oldest to the newest
// one. A manager and its worker use the newest one that both speak (see wire/protocol_versions.h),
// so either may be replaced first. A change that an older peer would misunderstand gets a new
// version, and code for the one before stays while people may upgrade from it.
inline constexpr uint32_t kOldestProtocolVersion = 3;
inline constexpr uint32_t kProtocolVersion = 4;
// The first version whose managers know of layers with a window.
inline constexpr uint32_t kWindowsProtocolVersion = 4;

// The limit for labels of sequences and names of workers, which are kept and shown to operators.
inline constexpr size_t kMaxLabelBytes = 256;

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_PROTOCOL_H_
