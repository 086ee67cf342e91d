// Harness is a coordinator with its pool, its score board and a clock that tests set.
#ifndef FOLIO_TESTS_CACHE_COORDINATOR_HARNESS_H_
#define FOLIO_TESTS_CACHE_COORDINATOR_HARNESS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "services/base/check.h"
#include "services/base/steady_time.h"
#include "services/cache/coordinator.h"
#include "services/cache/inspector.h"
#include "services/cache/parking.h"
#include "services/cache/restoration.h"
#include "tests/cache/mirror_journal.h"
#include "tests/common/manual_clock.h"

namespace folio::cache {

using ::folio::testing::ManualClock;

// The state of a sequence does not allow the call.
constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;

struct HarnessOptions {
  uint32_t pages = 64;
  uint32_t layers = 2, kv_heads = 2;
  uint32_t page_tokens = 4;
  bool score_board = true;
  absl::Duration orphan_ttl = absl::ZeroDuration();
  absl::Duration orphan_grace = absl::ZeroDuration();
  Admission admission = Admission::kReserve;
  uint32_t swap_slots = 0;
  uint32_t decision_threads = 0;
  LayerWindows windows = {};
};

class Harness {
 public:
  explicit Harness(const HarnessOptions& harness = {})
      : geometry{harness.layers, harness.kv_heads, 8, harness.page_tokens, harness.windows},
        board(geometry.score_board_floats(harness.pages), 0.0F) {
    options.geometry = geometry;
    options.num_pages = PageCount(harness.pages);
    options.orphan_ttl = harness.orphan_ttl;
    options.orphan_grace = harness.orphan_grace;
    options.admission = harness.admission;
    options.swap_slots = harness.swap_slots;
    options.decision_threads = harness.decision_threads;
    options.score_board = harness.score_board ? board.data() : nullptr;
    options.clock = &clock;
    options.quotas = &quotas;
    options.journal = &journal;
    options.ids = &ids;
    coordinator = std::make_unique<Coordinator>(options);
  }

  // Writes one token's score for all heads, as a worker would.
  void Score(PageRef page, uint32_t offset, float score, uint32_t channel = 0) {
    const size_t row = channel * board.size() / 2 + page.page.value() * geometry.scores_per_page() +
                       size_t{offset} * geometry.num_kv_heads;
    for (uint32_t head = 0; head < geometry.num_kv_heads; ++head) board[row + head] = score;
  }

  // A next manager takes over. `workers` may still run. The pages have their contents or lost them.
  Restored Restart(const std::vector<WorkerId>& workers, bool has_contents = true) {
    return Continue(journal.Take(workers), has_contents);
  }
  // As Restart, from what the next manager has read.
  Restored Continue(SavedCache saved, bool has_contents) {
    saved.has_contents = has_contents;
    coordinator = std::make_unique<Coordinator>(options);
    return Restoration(*coordinator).Restore(std::move(saved));
  }

  Parking parking() { return Parking(*coordinator); }
  Inspector inspector() const { return Inspector(*coordinator); }

  const CacheGeometry geometry;
  std::vector<float> board;
  ManualClock clock;
  TenantQuotas quotas{&clock};
  MirrorJournal journal;
  IdSource ids;
  CoordinatorOptions options;
  std::unique_ptr<Coordinator> coordinator;
};

inline policy::CacheConfig Cache(const policy::PolicySpec& policy, uint32_t budget,
                                 uint32_t sink = 4, uint32_t recent = 4,
                                 policy::EvictionMode mode = policy::EvictionMode::kPipelined) {
  return {policy::ChosenPolicy(policy), TokenCount(budget), TokenCount(sink), TokenCount(recent),
          mode};
}

inline policy::CacheConfig FullCache() { return Cache(policy::FullSpec(), 0); }

inline OpenRequest Request(WorkerId worker, uint32_t prompt, uint32_t max_new,
                           const policy::CacheConfig& cache) {
  OpenRequest request;
  request.worker = worker;
  for (uint32_t i = 0; i < prompt; ++i) request.prompt.emplace_back(i);
  request.max_new_tokens = TokenCount(max_new);
  request.cache = cache;
  return request;
}

// Snapshot is the state that a refused call must leave as it was.
struct Snapshot {
  uint32_t free, held, reserved, quarantined;
  std::vector<uint32_t> lengths;
  std::vector<PageList> pages;
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

inline Snapshot Look(const Coordinator& coordinator) {
  const PoolInfo pool = Inspector(coordinator).pool();
  Snapshot look{pool.free.value(),
                pool.held.value(),
                pool.reserved.value(),
                pool.quarantined.value(),
                {},
                {}};
  for (const SequenceInfo& info : Inspector(coordinator).sequences()) {
    look.lengths.push_back(info.logical_length.value());
    look.lengths.push_back(info.resident.value());
    look.lengths.push_back(static_cast<uint32_t>(info.state));
    look.lengths.push_back(static_cast<uint32_t>(info.plan_epoch.value()));
    const absl::StatusOr<SequenceDetail> detail = Inspector(coordinator).sequence(info.id);
    FOLIO_CHECK(detail.ok());
    for (const LayerTableInfo& layer : detail->layers) look.pages.push_back(layer.pages);
  }
  return look;
}

}  // namespace folio::cache

#endif  // FOLIO_TESTS_CACHE_COORDINATOR_HARNESS_H_
