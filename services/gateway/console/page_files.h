// PageFiles is the files of the console's page, which are part of the program.
// deploy/page_files.cmake writes the definition.
#ifndef FOLIO_SERVICES_GATEWAY_CONSOLE_PAGE_FILES_H_
#define FOLIO_SERVICES_GATEWAY_CONSOLE_PAGE_FILES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace folio::gateway {

struct PageFile {
  absl::string_view path;  // below the page, such as "index.html" or "assets/index-1a2b.js"
  absl::string_view content;
};

// By path. Empty if the program was built without the console.
absl::Span<const PageFile> PageFiles();

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_CONSOLE_PAGE_FILES_H_
