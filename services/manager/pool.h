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
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "folio/state/v1/journal.pb.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/base/clock.h"
#include "services/base/geometry.h"
#include "services/cache/coordinator.h"
#include "services/manager/manager_journal.h"
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
  cache::ClearPages clear_pages = cache::ClearPages::kBetweenTenants;
};

// PoolUsers is what a pool's coordinator works with. All are borrowed, and all but the clock may be
// null.
struct PoolUsers {
  const Clock* clock = nullptr;
  cache::CoordinatorObserver* observer = nullptr;
  const cache::TenantQuotas* quotas = nullptr;
  ManagerJournal* journal = nullptr;
  cache::IdSource* ids = nullptr;
};

// Thread-safe. Only the coordinator changes, and the memory until it is complete.
class Pool {
 public:
  // The pool has as many pages of `layout` as PageSource::PagesThatFit allows, in memory of
  // `source`. INVALID_ARGUMENT for a layout that no pool can have, FAILED_PRECONDITION if `size` or
  // the swap memory is too small for it, and the errors of PageSource.
  static absl::StatusOr<std::unique_ptr<Pool>> Create(const v1::ModelLayout& layout,
                                                      const PageSource& source,
                                                      const PoolSize& size, const PoolRules& rules,
                                                      const PoolUsers& users);
  // The pool that the manager before this one had, without its memory and its sequences. INTERNAL
  // for a pool that no manager makes.
  static absl::StatusOr<std::unique_ptr<Pool>> Expect(const folio::state::v1::JournalPool& saved,
                                                      const PoolRules& rules,
                                                      const PoolUsers& users);
  // How the journal describes it.
  folio::state::v1::JournalPool Saved() const;

  const v1::ModelLayout& layout() const { return layout_; }
  const CacheGeometry& geometry() const { return geometry_; }  // of the whole model
  uint64_t page_bytes() const { return page_bytes_; }          // of all ranks
  const PoolExport& memory() const { return memory_; }
  PoolExport& memory() { return memory_; }  // to be filled, see AwaitedMemory
  // Other memory takes the place of that which does not come back.
  absl::Status ReplaceMemory(const PageSource& source);
  uint32_t swap_slots() const { return swap_slots_; }
  // The answer to a worker that attaches, and that maps swap memory or does not.
  v1::PoolLayout Describe(bool maps_swap) const;
  cache::Coordinator& coordinator() const { return *coordinator_; }

 private:
  // The flags that gave it its size.
  struct Flags {
    std::string pool_bytes;
    uint64_t host_swap_bytes = 0;
  };

  Pool(v1::ModelLayout layout, PageCount num_pages, uint32_t swap_slots, PoolExport memory,
       std::string id, Flags flags);
  void MakeCoordinator(const PoolRules& rules, const PoolUsers& users);

  const v1::ModelLayout layout_;
  const CacheGeometry geometry_;
  const uint64_t page_bytes_;
  const PageCount num_pages_;
  const uint32_t swap_slots_;
  const Flags flags_;
  bool keeps_record_ = false;  // in a journal, so that workers keep the descriptors
  std::string id_;             // random, and another one for other memory
  PoolExport memory_;
  std::unique_ptr<cache::Coordinator> coordinator_;  // reads memory_, so it is destroyed first
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POOL_H_
