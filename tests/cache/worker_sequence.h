// WorkerSequence is a worker's side of one sequence. It obeys the protocol unless a test makes it
// break a rule.
#ifndef FOLIO_TESTS_CACHE_WORKER_SEQUENCE_H_
#define FOLIO_TESTS_CACHE_WORKER_SEQUENCE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "services/base/check.h"
#include "services/cache/coordinator.h"
#include "tests/cache/single_step.h"

namespace folio::cache {

// A worker that can leave a sequence parked, as all of today can.
inline constexpr WorkerAbilities kParks = {.prefill_ahead = TokenCount(0), .parks = true};

// Members are public so that tests can break the rules.
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

  // A commit of `tokens` more tokens, with everything that belongs to it.
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
    absl::StatusOr<Outcome> outcome = cache::Commit(coordinator_, commit);
    if (outcome.ok()) Committed(commit, *outcome);
    return outcome;
  }
  void Committed(const CommitTokens& commit, const Outcome& outcome) {
    const uint32_t growth = commit.logical_length.value() - logical;
    logical += growth;
    known += static_cast<uint32_t>(commit.sampled.size());
    for (uint32_t& tokens : resident) tokens += growth;
    MoveWindows();
    Take(outcome);
  }

  // Carries the waiting plan out and acknowledges it.
  absl::StatusOr<Outcome> Ack(uint32_t page_tokens = 4) {
    FOLIO_CHECK(plan.has_value());
    absl::StatusOr<Outcome> outcome = cache::Ack(coordinator_, worker, {id, epoch, plan->epoch});
    if (outcome.ok()) Acknowledged(*outcome, page_tokens);
    return outcome;
  }
  void Acknowledged(const Outcome& outcome, uint32_t page_tokens = 4) {
    const Plan done = *std::exchange(plan, std::nullopt);
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
    Take(outcome);
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
  LayerWindows windows;      // none, unless a test sets them
  uint32_t page_tokens = 4;  // that windows move by

 private:
  void MoveWindows() {
    for (size_t layer = 0; layer < tables.size(); ++layer) {
      const uint32_t behind = windows.TokensBehind(layer, logical, page_tokens);
      if (behind <= logical - resident[layer]) continue;
      const uint32_t gone = behind - (logical - resident[layer]);
      tables[layer].erase(tables[layer].begin(), tables[layer].begin() + gone / page_tokens);
      resident[layer] -= gone;
    }
  }
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

}  // namespace folio::cache

#endif  // FOLIO_TESTS_CACHE_WORKER_SEQUENCE_H_
