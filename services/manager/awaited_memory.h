// AwaitedMemory fills a PoolExport whose memory the manager before this one made, with the
// descriptors that workers bring back.
#ifndef FOLIO_SERVICES_MANAGER_AWAITED_MEMORY_H_
#define FOLIO_SERVICES_MANAGER_AWAITED_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/base/geometry.h"
#include "services/base/ids.h"
#include "services/base/unique_fd.h"
#include "services/manager/pool_export.h"

namespace folio::manager {

// The memory of one rank, and the board, as a worker brings them back. `swap` is invalid without
// swap memory.
struct BroughtMemory {
  UniqueFd pool;
  UniqueFd score_board;
  UniqueFd swap;
};

// Borrows the export. Thread-compatible, and nothing else may use the export before it is complete.
class AwaitedMemory {
 public:
  explicit AwaitedMemory(PoolExport& memory) : memory_(memory) {}

  // An export of these sizes without memory. `places` says where the pages of each rank are.
  static absl::StatusOr<PoolExport> Expect(const CacheGeometry& geometry,
                                           absl::Span<const CacheGeometry> ranks,
                                           PageCount num_pages, uint32_t swap_slots,
                                           std::vector<PagePlace> places);

  // A worker brings the memory of this rank. If it is there already, nothing changes.
  // FAILED_PRECONDITION if it does not fit.
  absl::Status Bring(Rank rank, BroughtMemory brought);
  // In place of memory that was never brought.
  absl::Status Replace(PoolExport made);
  bool complete() const;

 private:
  PoolExport& memory_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_AWAITED_MEMORY_H_
