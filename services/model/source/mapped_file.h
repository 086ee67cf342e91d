// MappedFile is a file mapped into memory for reading. The mapping lives as long as the object, so
// that whatever points into it holds a shared_ptr. Immutable and thread-safe. The file must not
// shrink while it is mapped, because a read beyond the new end is a SIGBUS. Replace model files by
// rename and never rewrite them.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_MAPPED_FILE_H_
#define FOLIO_SERVICES_MODEL_SOURCE_MAPPED_FILE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace folio::model {

class MappedFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT (not a regular file) name the path. An empty
  // file gives empty bytes.
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

#endif  // FOLIO_SERVICES_MODEL_SOURCE_MAPPED_FILE_H_
