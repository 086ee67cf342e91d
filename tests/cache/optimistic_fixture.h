// OptimisticTest is a coordinator of 20 pages of 4 tokens and 1 layer that may run dry, with two
// workers, and sequences that wait for room and can be resumed.
#ifndef FOLIO_TESTS_CACHE_OPTIMISTIC_FIXTURE_H_
#define FOLIO_TESTS_CACHE_OPTIMISTIC_FIXTURE_H_

#include <cstdint>

#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {

class OptimisticTest : public ::testing::Test {
 protected:
  explicit OptimisticTest(const WorkerAbilities& abilities = kParks, uint32_t swap_slots = 0)
      : abilities_(abilities),
        harness_({.pages = 20,
                  .layers = 1,
                  .orphan_ttl = absl::Seconds(60),
                  .admission = Admission::kOptimistic,
                  .swap_slots = swap_slots}) {}

  void TearDown() override { EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus()); }

  OpenRequest Asking(uint32_t prompt, uint32_t max_new, WorkerId worker, int32_t priority = 0,
                     const policy::CacheConfig& cache = FullCache()) {
    OpenRequest request = Request(worker, prompt, max_new, cache);
    request.abilities = abilities_;
    request.waits_for_room = true;
    request.urgency.priority = priority;
    request.metadata.resume_token = "token";
    harness_.clock.Advance(absl::Milliseconds(1));  // no two are due at the same moment
    return request;
  }
  // A sequence of the first worker whose prompt is computed.
  WorkerSequence Run(uint32_t prompt, uint32_t max_new, int32_t priority = 0,
                     const policy::CacheConfig& cache = FullCache()) {
    const OpenRequest request = Asking(prompt, max_new, worker_, priority, cache);
    WorkerSequence sequence = MustOpen(*harness_.coordinator, request);
    EXPECT_TRUE(sequence.Commit(prompt).ok());
    return sequence;
  }
  WorkerSequence Run(uint32_t prompt, uint32_t max_new, const policy::CacheConfig& cache) {
    return Run(prompt, max_new, 0, cache);
  }
  // Decodes until the pages are full.
  static void Fill(WorkerSequence& sequence) {
    while (sequence.Room() > 0) ASSERT_TRUE(sequence.Commit(1).ok());
  }
  Attention Attend() { return harness_.parking().Attend(worker_); }
  SequenceInfo Info(const WorkerSequence& sequence) {
    return harness_.inspector().sequence(sequence.id)->info;
  }

  const WorkerAbilities abilities_;
  Harness harness_;
  WorkerId worker_ = harness_.coordinator->AddWorker("w");
  WorkerId other_ = harness_.coordinator->AddWorker("other");
};

}  // namespace folio::cache

#endif  // FOLIO_TESTS_CACHE_OPTIMISTIC_FIXTURE_H_
