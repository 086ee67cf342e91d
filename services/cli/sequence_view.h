// SequenceView is one sequence as text, as `folioctl sequence` and `folioctl top` show it.
#ifndef FOLIO_SERVICES_CLI_SEQUENCE_VIEW_H_
#define FOLIO_SERVICES_CLI_SEQUENCE_VIEW_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "services/cli/command.h"
#include "services/client/admin_client.h"

namespace folio::cli {

// Asks the manager. NOT_FOUND: no such sequence is open.
absl::StatusOr<std::string> SequenceView(client::AdminClient& client, uint64_t id,
                                         const Context& context);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_SEQUENCE_VIEW_H_
