// A read-only file in memory. The mapping lives as long as the object; share it by shared_ptr with
// whatever points into it. Immutable and thread-safe. The file must not shrink while it is mapped
// (a read beyond the new end is a SIGBUS): model files are replaced by rename, never rewritten.
#ifndef FOLIO_SERVICES_MODEL_MAPPED_FILE_H_
#define FOLIO_SERVICES_MODEL_MAPPED_FILE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace folio::model {

class MappedFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT (no regular file) name the path. An empty file
  // gives empty bytes.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  absl::Span<const std::byte> bytes() const { return bytes_; }
  absl::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  MappedFile(std::string path, absl::Span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  absl::Span<const std::byte> bytes_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_MAPPED_FILE_H_
