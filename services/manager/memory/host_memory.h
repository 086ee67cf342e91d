// HostMemory is page memory of the host, a sealed memfd for each rank.
#ifndef FOLIO_SERVICES_MANAGER_MEMORY_HOST_MEMORY_H_
#define FOLIO_SERVICES_MANAGER_MEMORY_HOST_MEMORY_H_

#include <memory>
#include <string>
#include <vector>

#include "services/manager/memory/page_memory.h"
#include "services/manager/memory/sealed_memory.h"

namespace folio::manager {

// Reserved huge pages are used if the size is a multiple of theirs and enough of them are free.
// Pages start as zeros. Without `prefault` they take memory of the machine only when workers write
// them, and a worker that writes when there is none left is ended by SIGBUS or by the kernel.
class HostMemory final : public PageSource {
 public:
  // With `prefault` Allocate takes all memory at once. That may take some seconds.
  explicit HostMemory(bool prefault = false) : prefault_(prefault) {}

  std::string device() const override { return "cpu"; }
  bool on_gpus() const override { return false; }
  std::vector<DeviceState> Devices() const override { return {}; }
  bool prefaults() const override { return prefault_; }
  // Warns in the log if the size is more than the memory that is free now. With `prefault` that is
  // an error.
  absl::Status CheckSize(const PoolSize& size) const override;
  // Leaves out the pages that would not fill a huge page, if the machine has reserved any.
  absl::StatusOr<uint64_t> PagesThatFit(const PoolSize& size,
                                        absl::Span<const uint64_t> rank_page_bytes,
                                        uint64_t least) const override;
  absl::StatusOr<std::unique_ptr<PageMemory>> Allocate(Rank rank, size_t bytes) const override;

 private:
  // All memory of a rank, if `prefault` was asked for.
  absl::Status Prefault(Rank rank, const SealedMemory& memory, HugePages kind) const;

  const bool prefault_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_MEMORY_HOST_MEMORY_H_
