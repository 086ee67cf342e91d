// Pool is the node's pool of pages: one model layout, the memory, and the coordinator that gives
// its pages out. Each tensor-parallel rank has page memory of its own, and a page id names the same
// page in all of them.
//
// A worker that attaches creates the pool, because a page's size follows from the model and only a
// worker knows the model. The manager never reads a model file.
#ifndef FOLIO_SERVICES_MANAGER_POOL_H_
#define FOLIO_SERVICES_MANAGER_POOL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/base/clock.h"
#include "services/base/geometry.h"
#include "services/cache/coordinator.h"
#include "services/manager/memory/page_memory.h"
#include "services/manager/memory/pool_size.h"
#include "services/manager/pool_export.h"

namespace folio::manager {

// PoolRules says which sequences get pages, how long workers and lost sequences keep them, and how
// much swap memory there is beside them. See cache::CoordinatorOptions.
struct PoolRules {
  absl::Duration lease_ttl = absl::Seconds(10);
  absl::Duration orphan_ttl = absl::ZeroDuration();  // 0 if sequences end with their worker
  absl::Duration orphan_grace = absl::ZeroDuration();
  cache::Admission admission = cache::Admission::kReserve;
  policy::Compaction default_compaction = policy::Compaction::kAutomatic;
  uint64_t host_swap_bytes = 0;  // for the pages of parked sequences, of all ranks together
  uint32_t decision_threads = 0;
};

// Thread-safe. Only the coordinator changes.
class Pool {
 public:
  // The pool has as many pages of `layout` as PageSource::PagesThatFit allows, in memory of
  // `source`. INVALID_ARGUMENT for a layout that no pool can have, FAILED_PRECONDITION if `size` or
  // the swap memory is too small for it, and the errors of PageSource. `clock`, `observer` and
  // `quotas` are borrowed, and the last two may be null. Workers and sequences get ids after
  // `last_ids`.
  static absl::StatusOr<std::unique_ptr<Pool>> Create(
      const v1::ModelLayout& layout, const PageSource& source, const PoolSize& size,
      const PoolRules& rules, const Clock* clock, cache::CoordinatorObserver* observer,
      cache::LastIds last_ids = {}, const cache::TenantQuotas* quotas = nullptr);

  const v1::ModelLayout& layout() const { return layout_; }
  const CacheGeometry& geometry() const { return geometry_; }  // of the whole model
  uint64_t page_bytes() const { return page_bytes_; }          // of all ranks
  uint32_t ranks() const { return ranks_; }
  const PoolExport& memory() const { return memory_; }
  uint32_t swap_slots() const { return swap_slots_; }
  // The answer to a worker that attaches, and that maps swap memory or does not.
  v1::PoolLayout Describe(bool maps_swap) const;
  cache::Coordinator& coordinator() const { return *coordinator_; }

 private:
  Pool(v1::ModelLayout layout, const CacheGeometry& geometry, uint32_t ranks, uint64_t page_bytes,
       uint32_t swap_slots, PoolExport memory);

  const v1::ModelLayout layout_;
  const CacheGeometry geometry_;
  const uint32_t ranks_;
  const uint64_t page_bytes_;
  const uint32_t swap_slots_;
  const PoolExport memory_;
  std::unique_ptr<cache::Coordinator> coordinator_;  // reads memory_, so it is destroyed first
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POOL_H_
