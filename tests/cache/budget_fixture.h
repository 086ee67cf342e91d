// BudgetTest is an OptimisticTest whose sequences get lower budgets while they decode.
#ifndef FOLIO_TESTS_CACHE_BUDGET_FIXTURE_H_
#define FOLIO_TESTS_CACHE_BUDGET_FIXTURE_H_

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/cache/steering.h"
#include "tests/cache/optimistic_fixture.h"

namespace folio::cache {

inline constexpr WorkerAbilities kSwaps = {
    .prefill_ahead = TokenCount(0), .parks = true, .swaps = true};

inline policy::CacheConfig Streaming(uint32_t budget) {
  return Cache(policy::StreamingLlmSpec(), budget);
}

class BudgetTest : public OptimisticTest {
 protected:
  BudgetTest() : OptimisticTest(kSwaps, /*swap_slots=*/20) {}

  absl::StatusOr<LoweredBudget> Lower(const WorkerSequence& sequence, uint32_t budget) {
    return Steering(*harness_.coordinator).LowerBudget(sequence.id, TokenCount(budget));
  }
  void Check() { ASSERT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus()); }
  // Decodes a token, and then acknowledges the plan that waits, as a worker does.
  void Step(WorkerSequence& sequence) {
    ASSERT_GT(sequence.Room(), 0U) << "it stands still";
    ASSERT_TRUE(sequence.Commit(1).ok());
    Check();
    if (!sequence.plan.has_value()) return;
    ASSERT_TRUE(sequence.Ack().ok());
    Check();
  }
  void Decode(WorkerSequence& sequence, int tokens) {
    for (int token = 0; token < tokens; ++token) ASSERT_NO_FATAL_FAILURE(Step(sequence));
  }
  // Plays the worker of a sequence that has pages again, to be computed from the beginning or, if
  // it was swapped, from where it was.
  void Unpark(WorkerSequence& sequence) {
    const auto unparked = harness_.parking().Unpark(worker_, sequence.id, sequence.epoch);
    ASSERT_TRUE(unparked.ok()) << unparked.status();
    if (!unparked->swapped.empty()) {
      sequence.tables[0] = unparked->swapped[0].pages;
      sequence.plan = unparked->plan;
      return;
    }
    sequence.logical = sequence.resident[0] = 0;
    sequence.tables = unparked->pages;
    sequence.plan.reset();
  }
  void Park(WorkerSequence& sequence, bool swapped) {
    ASSERT_TRUE(Steering(*harness_.coordinator).Park(sequence.id).ok());
    ASSERT_THAT(Attend().park, ::testing::ElementsAre(sequence.id));
    const auto parked = harness_.parking().Park(worker_, sequence.id, sequence.epoch, swapped);
    ASSERT_TRUE(parked.ok());
    ASSERT_EQ(*parked, swapped);
    Check();
  }
};

}  // namespace folio::cache

#endif  // FOLIO_TESTS_CACHE_BUDGET_FIXTURE_H_
