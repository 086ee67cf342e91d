#include "services/manager/memory/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace folio::manager {

SealedMemory& SealedMemory::operator=(SealedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SealedMemory::~SealedMemory() {
  if (address_ != nullptr) munmap(address_, bytes_);
}

absl::StatusOr<SealedMemory> SealedMemory::Make(const char* name, size_t bytes, int protection,
                                                unsigned extra_flags) {
  SealedMemory made;
  made.bytes_ = bytes;
  made.fd_.Reset(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | extra_flags));
  if (!made.fd_.valid()) return absl::ErrnoToStatus(errno, "memfd_create");
  if (ftruncate(made.fd(), static_cast<off_t>(bytes)) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot size ", name, " to ", bytes, " bytes"));
  }
  if (fcntl(made.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot seal ", name));
  }
  // The mapping also reserves the huge pages, when there are such.
  void* address = mmap(nullptr, bytes, protection, MAP_SHARED, made.fd(), 0);
  if (address == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", bytes, " bytes of ", name));
  }
  made.address_ = address;
  return made;
}

}  // namespace folio::manager
