// This header names the version of this build.
#ifndef FOLIO_SERVICES_RUNTIME_VERSION_H_
#define FOLIO_SERVICES_RUNTIME_VERSION_H_

#include <string>

namespace folio {

// "0.2.0"
std::string Version();
// "0.2.0 (Release, GNU 12.2.0)", for --version and the first log line.
std::string BuildDescription();

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_VERSION_H_
