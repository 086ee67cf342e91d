// A pool, a clock that tests turn, and a worker's side of a sequence that obeys the protocol.
#ifndef FOLIO_TESTS_CACHE_COORDINATOR_RIG_H_
#define FOLIO_TESTS_CACHE_COORDINATOR_RIG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/cache/coordinator.h"
#include "services/common/check.h"

namespace folio::cache {

class TurnedClock final : public Clock {
 public:
  absl::Time Now() const override {
    absl::MutexLock lock(&mu_);
    return now_;
  }
  void Advance(absl::Duration by) {
    absl::MutexLock lock(&mu_);
    now_ += by;
  }

 private:
  mutable absl::Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_) = absl::UnixEpoch();
};

struct RigOptions {
  uint32_t pages = 64;
  uint32_t layers = 2, kv_heads = 2;
  uint32_t page_tokens = 4;
  bool score_board = true;
  absl::Duration orphan_ttl = absl::ZeroDuration();
};

class Rig {
 public:
  explicit Rig(const RigOptions& rig = {})
      : geometry{rig.layers, rig.kv_heads, 8, rig.page_tokens},
        board(geometry.score_board_floats(rig.pages), 0.0F) {
    CoordinatorOptions options;
    options.geometry = geometry;
    options.num_pages = PageCount(rig.pages);
    options.orphan_ttl = rig.orphan_ttl;
    options.score_board = rig.score_board ? board.data() : nullptr;
    options.clock = &clock;
    coordinator = std::make_unique<Coordinator>(options);
  }

  // Writes one token's score for all heads, as a worker would.
  void Score(PageRef page, uint32_t offset, float score, uint32_t plane = 0) {
    const size_t row = plane * board.size() / 2 + page.page.value() * geometry.scores_per_page() +
                       size_t{offset} * geometry.num_kv_heads;
    for (uint32_t head = 0; head < geometry.num_kv_heads; ++head) board[row + head] = score;
  }

  const CacheGeometry geometry;
  std::vector<float> board;
  TurnedClock clock;
  std::unique_ptr<Coordinator> coordinator;
};

inline policy::CacheConfig Cache(policy::PolicySpec policy, uint32_t budget, uint32_t sink = 4,
                                 uint32_t recent = 4,
                                 policy::EvictionMode mode = policy::EvictionMode::kPipelined) {
  return {policy, TokenCount(budget), TokenCount(sink), TokenCount(recent), mode};
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

// What a worker knows of one sequence. Members are open for tests to break the rules with.
class WorkerSequence {
 public:
  WorkerSequence(Coordinator& coordinator, const OpenRequest& request, const Opened& opened)
      : worker(request.worker),
        id(opened.sequence),
        epoch(opened.lease_epoch),
        prompt(static_cast<uint32_t>(request.prompt.size())),
        known(prompt),
        tables(opened.pages),
        resident(opened.pages.size(), 0),
        coordinator_(coordinator) {}

  // A commit of `tokens` more, with all that must come with it.
  CommitRequest Next(uint32_t tokens, uint32_t page_tokens) const {
    CommitRequest commit;
    commit.worker = worker;
    commit.sequence = id;
    commit.lease_epoch = epoch;
    commit.logical_length = TokenCount(logical + tokens);
    if (logical + tokens >= prompt) {
      for (uint32_t i = known; i < logical + tokens + 1; ++i) commit.sampled.emplace_back(7);
    }
    if (logical < prompt) return commit;
    for (size_t layer = 0; layer < tables.size(); ++layer) {
      const uint32_t full = (resident[layer] + tokens) / page_tokens;
      if (full > resident[layer] / page_tokens) commit.filled.push_back(tables[layer][full - 1]);
    }
    return commit;
  }

  absl::StatusOr<Outcome> Commit(uint32_t tokens, uint32_t page_tokens = 4) {
    return Send(Next(tokens, page_tokens));
  }
  absl::StatusOr<Outcome> Send(const CommitRequest& commit) {
    absl::StatusOr<Outcome> outcome = coordinator_.Commit(commit);
    if (!outcome.ok()) return outcome;
    const uint32_t growth = commit.logical_length.value() - logical;
    logical += growth;
    known += static_cast<uint32_t>(commit.sampled.size());
    for (uint32_t& tokens : resident) tokens += growth;
    Take(*outcome);
    return outcome;
  }

  // Carries the waiting plan out and acknowledges it.
  absl::StatusOr<Outcome> Ack(uint32_t page_tokens = 4) {
    FOLIO_CHECK(plan.has_value());
    const Plan done = *plan;
    absl::StatusOr<Outcome> outcome = coordinator_.Ack(worker, id, epoch, done.epoch);
    if (!outcome.ok()) return outcome;
    for (size_t layer = 0; layer < tables.size(); ++layer) {
      if (const auto* compact = std::get_if<CompactAction>(&done.action)) {
        resident[layer] = static_cast<uint32_t>(compact->keep[layer].size());
        tables[layer].resize((resident[layer] + page_tokens - 1) / page_tokens +
                             compact->spare[layer].value());
      } else if (const auto block = std::get<DropAction>(done.action).block[layer]) {
        resident[layer] -= page_tokens;
        tables[layer].erase(tables[layer].begin() + block->value());
      }
    }
    plan.reset();
    Take(*outcome);
    return outcome;
  }

  absl::Status Close() { return coordinator_.Close(worker, id, epoch); }

  // Tokens that still fit, in the fullest layer.
  uint32_t Room(uint32_t page_tokens = 4) const {
    uint32_t room = UINT32_MAX;
    for (size_t layer = 0; layer < tables.size(); ++layer) {
      const auto capacity = static_cast<uint32_t>(tables[layer].size() * page_tokens);
      room = std::min(room, capacity - resident[layer]);
    }
    return room;
  }

  WorkerId worker;
  SequenceId id;
  LeaseEpoch epoch;
  uint32_t prompt;
  uint32_t logical = 0;
  uint32_t known;  // ids in the record
  LayerPageLists tables;
  std::vector<uint32_t> resident;
  std::optional<Plan> plan;

 private:
  void Take(const Outcome& outcome) {
    for (size_t layer = 0; layer < outcome.granted.size(); ++layer) {
      const PageList& pages = outcome.granted[layer];
      tables[layer].insert(tables[layer].end(), pages.begin(), pages.end());
    }
    if (outcome.plan.has_value()) {
      FOLIO_CHECK(!plan.has_value());
      plan = outcome.plan;
    }
  }

  Coordinator& coordinator_;
};

// Opens what must open.
inline WorkerSequence MustOpen(Coordinator& coordinator, const OpenRequest& request) {
  absl::StatusOr<Opened> opened = coordinator.Open(request);
  FOLIO_CHECK(opened.ok());
  return {coordinator, request, *opened};
}

// What must not change when a call is refused.
struct Snapshot {
  uint32_t free, held, reserved, quarantined;
  std::vector<uint32_t> lengths;
  std::vector<PageList> pages;
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

inline Snapshot Look(const Coordinator& coordinator) {
  const PoolInfo pool = coordinator.pool();
  Snapshot look{pool.free.value(),
                pool.held.value(),
                pool.reserved.value(),
                pool.quarantined.value(),
                {},
                {}};
  for (const SequenceInfo& info : coordinator.sequences()) {
    look.lengths.push_back(info.logical_length.value());
    look.lengths.push_back(info.resident.value());
    look.lengths.push_back(static_cast<uint32_t>(info.state));
    look.lengths.push_back(static_cast<uint32_t>(info.plan_epoch.value()));
    const absl::StatusOr<SequenceDetail> detail = coordinator.sequence(info.id);
    FOLIO_CHECK(detail.ok());
    for (const LayerTableInfo& layer : detail->layers) look.pages.push_back(layer.pages);
  }
  return look;
}

}  // namespace folio::cache

#endif  // FOLIO_TESTS_CACHE_COORDINATOR_RIG_H_
