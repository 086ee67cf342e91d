#include "services/manager/memory/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "services/base/check.h"

namespace folio::manager {
namespace {

constexpr size_t kPart = size_t{256} << 20;

// Writing through the mapping keeps its huge pages. A kernel before Linux 5.14 and a mapping that
// is only read take the file's pages instead. Returns the errno.
int Take(int fd, char* address, size_t offset, size_t bytes) {
  for (;;) {
    if (madvise(address + offset, bytes, MADV_POPULATE_WRITE) == 0) return 0;
    if (errno == EINVAL) break;
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
  for (;;) {
    if (fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

}  // namespace

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

absl::StatusOr<SealedMemory> SealedMemory::Adopt(const char* name, UniqueFd fd, size_t bytes,
                                                 int protection) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("fstat ", name));
  if (static_cast<uint64_t>(info.st_size) != bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " has ", info.st_size, " bytes, and the pool's has ", bytes));
  }
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return absl::FailedPreconditionError(absl::StrCat(name, " is not sealed against resizing"));
  }
  void* address = mmap(nullptr, bytes, protection, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", bytes, " bytes of ", name));
  }
  SealedMemory adopted;
  adopted.fd_ = std::move(fd);
  adopted.address_ = address;
  adopted.bytes_ = bytes;
  return adopted;
}

absl::StatusOr<SealedMemory> SealedMemory::Reserve(size_t bytes) {
  void* address =
      mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot reserve addresses");
  SealedMemory reserved;
  reserved.address_ = address;
  reserved.bytes_ = bytes;
  return reserved;
}

absl::Status SealedMemory::MoveTo(SealedMemory reserved) {
  FOLIO_CHECK(reserved.bytes_ == bytes_);
  // It replaces what is mapped there.
  void* moved = mremap(address_, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, reserved.address_);
  if (moved == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot move a mapping");
  address_ = std::exchange(reserved.address_, nullptr);
  return absl::OkStatus();
}

absl::Status SealedMemory::TakeAll(absl::FunctionRef<void(size_t taken)> progress) const {
  for (size_t taken = 0; taken < bytes_; progress(taken)) {
    const size_t part = std::min(kPart, bytes_ - taken);
    const int error = Take(fd(), static_cast<char*>(address_), taken, part);
    if (error == ENOMEM || error == ENOSPC || error == EFAULT) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the machine gave ", taken, " of ", bytes_, " bytes and has no more"));
    }
    if (error != 0) return absl::ErrnoToStatus(error, "cannot take memory from the machine");
    taken += part;
  }
  // Drops the mapping's page table alone. The pages are the file's.
  madvise(address_, bytes_, MADV_DONTNEED);
  return absl::OkStatus();
}

}  // namespace folio::manager
