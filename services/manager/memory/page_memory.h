// PageSource is where page memory comes from: shared memory of the host, or GPUs. In both cases a
// rank's page memory is one file descriptor that workers import, so the rest of a pool does not
// depend on which it is.
#ifndef FOLIO_SERVICES_MANAGER_MEMORY_PAGE_MEMORY_H_
#define FOLIO_SERVICES_MANAGER_MEMORY_PAGE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/manager/memory/pool_size.h"

namespace folio::manager {

enum class HugePages {
  kNone,
  kTransparent,  // the kernel backs shared memory with huge pages where a mapping asks for it
  kReserved,     // from the machine's reserved huge pages (hugetlb)
};
absl::string_view HugePagesName(HugePages kind);

// PagePlace says in which device's memory one rank's pages are.
struct PagePlace {
  std::string device = "cpu";  // or "cuda:0", as this process numbers its GPUs
  std::string device_uuid;     // "GPU-...", the same in every process, or empty for host memory
  size_t bytes = 0;  // an importer maps this many: the request, rounded up as the device needs
  HugePages huge_pages = HugePages::kNone;
};

// PageMemory is one rank's page memory. It is immutable, so any thread may use it. The memory is
// free once this object and every duplicate and mapping of the descriptor, in all processes, are
// gone.
class PageMemory {
 public:
  virtual ~PageMemory() = default;
  virtual int fd() const = 0;
  virtual const PagePlace& place() const = 0;
};

// DeviceState is a GPU that pages are on, as operators see it.
struct DeviceState {
  std::string device;  // "cuda:0"
  std::string uuid;
  std::string name;
  // Unset if NVML does not tell.
  std::optional<uint64_t> total_bytes = {};
  std::optional<uint64_t> free_bytes = {};
  std::vector<Rank> ranks = {};  // the ranks whose pages are on it, empty for all ranks
};

// Thread-safe. The memory that it allocates may outlive it.
class PageSource {
 public:
  virtual ~PageSource() = default;

  // "cpu", "cuda:0", "cuda:0,cuda:1".
  virtual std::string device() const = 0;
  virtual bool on_gpus() const = 0;
  // Whether the pool's memory in the host is taken from the machine when it is allocated, and not
  // when it is written.
  virtual bool prefaults() const { return false; }
  // One per GPU, and none for host memory.
  virtual std::vector<DeviceState> Devices() const = 0;

  // An error if no pool of this size is possible. It says how much there is and what to give.
  virtual absl::Status CheckSize(const PoolSize& size) const = 0;
  // The number of pages of a pool of this size, if a page takes rank_page_bytes[r] bytes on rank r.
  // RESOURCE_EXHAUSTED names the memory that is wanted and that is free, FAILED_PRECONDITION says
  // what is missing. It may leave a little memory unused, down to `least` pages, if that makes the
  // rest faster.
  virtual absl::StatusOr<uint64_t> PagesThatFit(const PoolSize& size,
                                                absl::Span<const uint64_t> rank_page_bytes,
                                                uint64_t least) const = 0;
  // Allocates memory for the pages of `rank`. The contents are uninitialised. RESOURCE_EXHAUSTED as
  // above.
  virtual absl::StatusOr<std::unique_ptr<PageMemory>> Allocate(Rank rank, size_t bytes) const = 0;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_MEMORY_PAGE_MEMORY_H_
