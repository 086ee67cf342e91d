// ProtocolVersions is the range of versions of the KvManager service that a program speaks. Manager
// and worker exchange their ranges when the worker attaches, and use the newest version that both
// speak. With that either can be replaced first.
#ifndef FOLIO_SERVICES_WIRE_PROTOCOL_VERSIONS_H_
#define FOLIO_SERVICES_WIRE_PROTOCOL_VERSIONS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/base/protocol.h"

namespace folio::wire {

struct ProtocolVersions {
  uint32_t oldest = kOldestProtocolVersion;
  uint32_t newest = kProtocolVersion;
};

// Writes what a worker speaks into its request.
void SetVersions(const ProtocolVersions& own, v1::AttachRequest* request);

// The version that a manager and the worker of the request use. FAILED_PRECONDITION names both
// ranges if they have none in common, and INVALID_ARGUMENT a range that ends before it begins.
absl::StatusOr<uint32_t> ChooseVersion(const ProtocolVersions& own,
                                       const v1::AttachRequest& request);

// The version that the manager has chosen, at the worker of `own`. FAILED_PRECONDITION for one that
// the worker does not speak.
absl::StatusOr<uint32_t> ChosenVersion(const ProtocolVersions& own,
                                       const v1::AttachResponse& response);

// FAILED_PRECONDITION if some layers of the worker's model attend to a window, and a manager that
// speaks this version knows of none. It would keep pages that the worker gives up, and decide on
// them.
absl::Status CheckKnowsWindows(uint32_t version, const v1::ModelLayout& layout);

}  // namespace folio::wire

#endif  // FOLIO_SERVICES_WIRE_PROTOCOL_VERSIONS_H_
