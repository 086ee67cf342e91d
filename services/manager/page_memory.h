// Where page memory comes from: shared memory of the host, or GPUs. Either way a rank's page memory
// is one file descriptor that workers import, and nothing else of a pool depends on which it is.
#ifndef FOLIO_SERVICES_MANAGER_PAGE_MEMORY_H_
#define FOLIO_SERVICES_MANAGER_PAGE_MEMORY_H_

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
#include "services/common/ids.h"
#include "services/manager/pool_size.h"

namespace folio::manager {

enum class HugePages {
  kNone,
  kTransparent,  // the kernel backs shared memory with huge pages where a mapping asks for it
  kReserved,     // from the machine's reserved huge pages (hugetlb)
};
absl::string_view HugePagesName(HugePages kind);

// Where one rank's page memory is.
struct PagePlace {
  std::string device = "cpu";  // or "cuda:0", as this process numbers its GPUs
  std::string device_uuid;     // "GPU-...", the same in every process; empty: host memory
  size_t bytes = 0;  // that an importer maps: what was asked for, rounded up as the device needs
  HugePages huge_pages = HugePages::kNone;
};

// One rank's page memory. Immutable; any thread. It is free once this and every duplicate and
// mapping of the descriptor, in all processes, are gone.
class PageMemory {
 public:
  virtual ~PageMemory() = default;
  virtual int fd() const = 0;
  virtual const PagePlace& place() const = 0;
};

// A GPU that pages are on, as operators see it.
struct DeviceState {
  std::string device;  // "cuda:0"
  std::string uuid;
  std::string name;
  // Unset when nothing tells.
  std::optional<uint64_t> total_bytes = {};
  std::optional<uint64_t> free_bytes = {};
  std::vector<Rank> ranks = {};  // whose pages are on it; empty: all ranks'
};

// Thread-safe. What it allocates may outlive it.
class PageSource {
 public:
  virtual ~PageSource() = default;

  // "cpu", "cuda:0", "cuda:0,cuda:1".
  virtual std::string device() const = 0;
  virtual bool on_gpus() const = 0;
  // One per GPU; none for host memory.
  virtual std::vector<DeviceState> Devices() const = 0;

  // Whether a pool of this size can be at all: the error says what there is and what to give.
  virtual absl::Status CheckSize(const PoolSize& size) const = 0;
  // How many pages a pool of this size has, if a page takes rank_page_bytes[r] bytes on rank r.
  // RESOURCE_EXHAUSTED names what is wanted and what is free, FAILED_PRECONDITION what is missing.
  // May leave a little unused, down to `least` pages, where that makes the rest faster.
  virtual absl::StatusOr<uint64_t> PagesThatFit(const PoolSize& size,
                                                absl::Span<const uint64_t> rank_page_bytes,
                                                uint64_t least) const = 0;
  // Of `rank`. What the bytes are at first is not said. RESOURCE_EXHAUSTED as above.
  virtual absl::StatusOr<std::unique_ptr<PageMemory>> Allocate(Rank rank, size_t bytes) const = 0;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_PAGE_MEMORY_H_
