#include "services/runtime/version.h"

#include "folio_commit.h"

namespace folio {

std::string Version() { return FOLIO_VERSION; }

std::string BuildDescription() {
  const std::string commit = FOLIO_COMMIT;
  return FOLIO_VERSION " (" + (commit.empty() ? "" : commit + ", ") +
         FOLIO_BUILD_TYPE ", " FOLIO_COMPILER ")";
}

}  // namespace folio
