// SealedMemory is shared memory of the host that cannot be resized any more (a sealed memfd). The
// descriptor goes to workers, and without the seals one of them could truncate the file. Every
// other process that maps it, the manager included, would then die of SIGBUS at its next access.
#ifndef FOLIO_SERVICES_MANAGER_MEMORY_SEALED_MEMORY_H_
#define FOLIO_SERVICES_MANAGER_MEMORY_SEALED_MEMORY_H_

#include <cstddef>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/base/unique_fd.h"

namespace folio::manager {

// Owns the descriptor and a mapping. Immutable, so any thread may read it. The memory starts as
// zeros and is taken from the machine page by page as it is written.
class SealedMemory {
 public:
  // `protection` is mmap's, for this process's mapping. `extra_flags` are memfd_create's.
  static absl::StatusOr<SealedMemory> Make(const char* name, size_t bytes, int protection,
                                           unsigned extra_flags);
  // Memory that another manager made, whose descriptor a worker brings. `name` is for messages.
  // FAILED_PRECONDITION: it has another size, or is not sealed.
  static absl::StatusOr<SealedMemory> Adopt(const char* name, UniqueFd fd, size_t bytes,
                                            int protection);
  // Addresses that read as zeros and take no memory, for MoveTo.
  static absl::StatusOr<SealedMemory> Reserve(size_t bytes);
  // Is from now on at the addresses of `reserved`, which has as many bytes.
  absl::Status MoveTo(SealedMemory reserved);

  SealedMemory() = default;
  SealedMemory(SealedMemory&& other) noexcept { *this = std::move(other); }
  SealedMemory& operator=(SealedMemory&& other) noexcept;
  ~SealedMemory();

  // Takes all pages from the machine now, so that no later write finds the machine without memory.
  // They are charged to this process's cgroup. Its own mapping does not keep them resident, because
  // a kernel that runs out of memory ends the process with the most resident pages first.
  // `progress` hears the bytes that are taken, from time to time. RESOURCE_EXHAUSTED if there is
  // too little memory. The kernel may end processes before it says so, so the caller looks first at
  // how much is free.
  absl::Status TakeAll(absl::FunctionRef<void(size_t taken)> progress) const;

  int fd() const { return fd_.get(); }
  void* address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  UniqueFd fd_;
  void* address_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_MEMORY_SEALED_MEMORY_H_
