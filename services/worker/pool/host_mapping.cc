#include "services/worker/pool/host_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::worker {

absl::StatusOr<SharedMapping> SharedMapping::Map(int fd, size_t bytes, const std::string& what) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("fstat of ", what));
  if (static_cast<uint64_t>(info.st_size) < bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, " is ", info.st_size, " bytes long and the manager promised ", bytes));
  }
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::FailedPreconditionError(absl::StrCat(what, " is not sealed against shrinking"));
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", bytes, " bytes of ", what));
  }
  return SharedMapping(static_cast<std::byte*>(data), bytes);
}

SharedMapping::SharedMapping(SharedMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

void SharedMapping::AskForHugePages() {
  // Only a speed-up, so a kernel without huge pages may refuse it.
  (void)madvise(data_, bytes_, MADV_HUGEPAGE);
}

SharedMapping::~SharedMapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace folio::worker
