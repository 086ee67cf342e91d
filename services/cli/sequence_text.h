// These functions name the states and tenants of sequences, for all commands that show some.
#ifndef FOLIO_SERVICES_CLI_SEQUENCE_TEXT_H_
#define FOLIO_SERVICES_CLI_SEQUENCE_TEXT_H_

#include <string>

#include "folio/v1/admin.pb.h"

namespace folio::cli {

// "decode", "decode, pinned" or "closing".
std::string StateName(const folio::v1::Sequence& sequence);
// Sequences whose requests name no tenant are of one tenant, which has no name.
std::string TenantName(const std::string& tenant);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_SEQUENCE_TEXT_H_
