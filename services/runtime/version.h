// This header names the version of this build.
#ifndef FOLIO_SERVICES_RUNTIME_VERSION_H_
#define FOLIO_SERVICES_RUNTIME_VERSION_H_

#include <string>

namespace folio {

// "0.2.0"
std::string Version();
// "1a2b3c4d5e", with "-dirty" if files differed from that commit. Empty for a build outside a git
// repository.
std::string Commit();
// "0.2.0 (1a2b3c4d5e, Release, GNU 12.2.0)", for --version and the first log line. The commit is
// left out if it is empty.
std::string BuildDescription();

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_VERSION_H_
