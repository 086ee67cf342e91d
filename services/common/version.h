// Which build this is.
#ifndef FOLIO_SERVICES_COMMON_VERSION_H_
#define FOLIO_SERVICES_COMMON_VERSION_H_

#include <string>

namespace folio {

// "0.1.0"
std::string Version();
// "0.1.0 (Release, GNU 12.2.0)", for --version and the first log line.
std::string BuildDescription();

}  // namespace folio

#endif  // FOLIO_SERVICES_COMMON_VERSION_H_
