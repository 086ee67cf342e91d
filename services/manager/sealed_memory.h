// Shared memory of the host that cannot be resized any more (a sealed memfd), so that a process
// which maps it can never be cut off by a truncation.
#ifndef FOLIO_SERVICES_MANAGER_SEALED_MEMORY_H_
#define FOLIO_SERVICES_MANAGER_SEALED_MEMORY_H_

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "services/common/unique_fd.h"

namespace folio::manager {

// Owns descriptor and mapping. Immutable, so any thread may read it; zero at first, and taken from
// the machine page by page as it is written.
class SealedMemory {
 public:
  // `protection` is mmap's, of our own mapping; `extra_flags` memfd_create's.
  static absl::StatusOr<SealedMemory> Make(const char* name, size_t bytes, int protection,
                                           unsigned extra_flags);
  SealedMemory() = default;
  SealedMemory(SealedMemory&& other) noexcept { *this = std::move(other); }
  SealedMemory& operator=(SealedMemory&& other) noexcept;
  ~SealedMemory();

  int fd() const { return fd_.get(); }
  void* address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  UniqueFd fd_;
  void* address_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_SEALED_MEMORY_H_
