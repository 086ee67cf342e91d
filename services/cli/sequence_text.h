// These functions name the states, tenants and pools of sequences, for all commands that show some.
#ifndef FOLIO_SERVICES_CLI_SEQUENCE_TEXT_H_
#define FOLIO_SERVICES_CLI_SEQUENCE_TEXT_H_

#include <string>

#include "folio/v1/admin.pb.h"

namespace folio::cli {

// "decode", "decode, pinned" or "closing".
std::string StateName(const folio::v1::Sequence& sequence);
// Sequences whose requests name no tenant are of one tenant, which has no name.
std::string TenantName(const std::string& tenant);
// "-" from a manager of a version that does not tell.
std::string PoolName(const std::string& pool);
// The name that --pools of the manager gave it, else its number.
std::string PoolTitle(const folio::v1::Pool& pool);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_SEQUENCE_TEXT_H_
