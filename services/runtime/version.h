// This header names the version of this build.
#ifndef FOLIO_SERVICES_RUNTIME_VERSION_H_
#define FOLIO_SERVICES_RUNTIME_VERSION_H_

#include <string>

namespace folio {

// "0.2.0"
std::string Version();
// "0.2.0 (1a2b3c4d5e, Release, GNU 12.2.0)", for --version and the first log line. The commit is
// left out of a build outside a git repository.
std::string BuildDescription();

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_VERSION_H_
