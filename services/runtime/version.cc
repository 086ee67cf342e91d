#include "services/runtime/version.h"

namespace folio {

std::string Version() { return FOLIO_VERSION; }

std::string BuildDescription() {
  return FOLIO_VERSION " (" FOLIO_BUILD_TYPE ", " FOLIO_COMPILER ")";
}

}  // namespace folio
