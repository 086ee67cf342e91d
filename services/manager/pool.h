// The node's pool: one layout, its memory, and the coordinator over it. A tensor-parallel rank has
// page memory of its own; a page id means the same page in each of them.
#ifndef FOLIO_SERVICES_MANAGER_POOL_H_
#define FOLIO_SERVICES_MANAGER_POOL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "folio/v1/types.pb.h"
#include "services/cache/coordinator.h"
#include "services/common/clock.h"
#include "services/common/geometry.h"
#include "services/manager/page_memory.h"
#include "services/manager/pool_export.h"
#include "services/manager/pool_size.h"

namespace folio::manager {

// Immutable but for the coordinator, which is thread-safe: any thread may use it.
class Pool {
 public:
  // As many pages of `layout` as PageSource::PagesThatFit says, in memory of `source`.
  // INVALID_ARGUMENT for a layout no pool can have, FAILED_PRECONDITION when `size` is too little
  // for it; others as of PageSource. `clock` is borrowed.
  static absl::StatusOr<std::unique_ptr<Pool>> Carve(const v1::ModelLayout& layout,
                                                     const PageSource& source, const PoolSize& size,
                                                     absl::Duration lease_ttl,
                                                     absl::Duration orphan_ttl, const Clock* clock);

  const v1::ModelLayout& layout() const { return layout_; }
  const CacheGeometry& geometry() const { return geometry_; }  // of the whole model
  uint64_t page_bytes() const { return page_bytes_; }          // of all ranks
  uint32_t ranks() const { return ranks_; }
  const PoolExport& memory() const { return memory_; }
  cache::Coordinator& coordinator() const { return *coordinator_; }

 private:
  Pool(v1::ModelLayout layout, const CacheGeometry& geometry, uint32_t ranks, uint64_t page_bytes,
       PoolExport memory);

  const v1::ModelLayout layout_;
  const CacheGeometry geometry_;
  const uint32_t ranks_;
  const uint64_t page_bytes_;
  const PoolExport memory_;
  std::unique_ptr<cache::Coordinator> coordinator_;  // reads memory_: goes first
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POOL_H_
