#include "services/runtime/version.h"

#include "folio_commit.h"

namespace folio {

std::string Version() { return FOLIO_VERSION; }

std::string Commit() { return FOLIO_COMMIT; }

std::string BuildDescription() {
  const std::string commit = Commit();
  return FOLIO_VERSION " (" + (commit.empty() ? "" : commit + ", ") +
         FOLIO_BUILD_TYPE ", " FOLIO_COMPILER ")";
}

}  // namespace folio
