#include "services/model/source/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::model {
namespace {

absl::Status ErrnoStatus(absl::string_view path, absl::string_view call) {
  const int error = errno;
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": ", call));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return ErrnoStatus(path, "cannot open");
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    absl::Status status = ErrnoStatus(path, "cannot stat");
    ::close(fd);
    return status;
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size != 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      absl::Status status = ErrnoStatus(path, "cannot map");
      ::close(fd);
      return status;
    }
    // The whole file is about to be read once; failure only costs time.
    (void)::madvise(data, size, MADV_WILLNEED);
  }
  ::close(fd);
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, {static_cast<const std::byte*>(data), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace folio::model
