// WriteArchive writes files into a .tar.gz: the format ustar of POSIX.1-1988 in the format of gzip
// (RFC 1952), by zlib.
#ifndef FOLIO_SERVICES_CLI_ARCHIVE_H_
#define FOLIO_SERVICES_CLI_ARCHIVE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace folio::cli {

struct ArchiveFile {
  std::string name;  // with its folder, at most 100 bytes
  std::string contents;
};

// The archive's mode is 0600, and that of its files 0644. UNKNOWN says why it cannot be written.
// Then there is no archive.
absl::Status WriteArchive(const std::string& path, const std::vector<ArchiveFile>& files);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_ARCHIVE_H_
