// CoordinatorOptions are the settings of a coordinator. They are plain values.
#ifndef FOLIO_SERVICES_CACHE_COORDINATOR_OPTIONS_H_
#define FOLIO_SERVICES_CACHE_COORDINATOR_OPTIONS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "services/base/clock.h"
#include "services/base/geometry.h"
#include "services/base/ids.h"
#include "services/cache/id_source.h"
#include "services/cache/journal.h"
#include "services/cache/observer.h"
#include "services/cache/page_clearing.h"
#include "services/cache/tenant_quotas.h"
#include "services/policy/cache_config.h"

namespace folio::cache {

// A sequence that may be what ends its workers must not end one after another. It ends itself when
// so many workers in a row claimed it and were lost before it made progress. There are two, because
// one loss is mostly the worker's own affair, and each further one costs all sequences of a worker.
// The worker that opened the sequence does not count, as it may have been busy with other prompts.
inline constexpr uint32_t kMaxFruitlessClaims = 2;

// Admission says how many pages a sequence is promised when it is let in.
enum class Admission : uint8_t {
  // The worst case of its whole life. A running sequence never waits for a page.
  kReserve,
  // Its prompt and the page after it. When the pool runs dry, the youngest sequence of the lowest
  // priority gives its pages back and is computed again later (see preemption.h). Most sequences
  // end long before their worst case, so many more of them run at a time.
  kOptimistic,
};

struct CoordinatorOptions {
  CacheGeometry geometry;
  PageCount num_pages;
  // Sequences whose workers cannot park are always admitted by kReserve.
  Admission admission = Admission::kReserve;
  // For requests whose compaction is kAutomatic and whose policy can do it.
  policy::Compaction default_compaction = policy::Compaction::kAutomatic;
  absl::Duration lease_ttl = absl::Seconds(10);
  // How long a sequence waits for another worker after its own is lost. With 0 it ends at once.
  absl::Duration orphan_ttl;
  // From when it can be claimed, it keeps its pages so long even if others need them, because its
  // client may be on its way.
  absl::Duration orphan_grace = absl::ZeroDuration();
  // The pool's score board, `geometry.score_board_floats(num_pages)` floats, borrowed. Workers in
  // other processes write it. A row is read only after the commit that covers it.
  const float* score_board = nullptr;
  // Slots of the swap memory, each of a page and its scores. With 0 nothing is swapped.
  uint32_t swap_slots = 0;
  // When workers clear pages before they write them.
  ClearPages clear_pages = ClearPages::kNever;
  // Threads that share the work of long decisions with the caller's.
  uint32_t decision_threads = 0;
  // Borrowed. Coordinators that share one give no id twice, neither side by side nor one after the
  // other. Without one, ids count from 1.
  IdSource* ids = nullptr;
  const Clock* clock = nullptr;             // borrowed
  CoordinatorObserver* observer = nullptr;  // borrowed; may be null
  const TenantQuotas* quotas = nullptr;     // borrowed; may be null
  Journal* journal = nullptr;               // borrowed; may be null
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_COORDINATOR_OPTIONS_H_
