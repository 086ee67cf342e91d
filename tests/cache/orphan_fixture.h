// OrphanTest is a coordinator with two workers, and sequences that can be resumed.
#ifndef FOLIO_TESTS_CACHE_ORPHAN_FIXTURE_H_
#define FOLIO_TESTS_CACHE_ORPHAN_FIXTURE_H_

#include <string>

#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {

class OrphanTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kPages = 64;

  void TearDown() override {
    EXPECT_EQ(Inspector(coordinator_).CheckInvariants(), absl::OkStatus());
  }
  PoolInfo Pool() { return Inspector(coordinator_).pool(); }

  static OpenRequest Resumable(WorkerId worker, uint32_t prompt, uint32_t max_new,
                               const policy::CacheConfig& cache) {
    OpenRequest request = Request(worker, prompt, max_new, cache);
    request.metadata = {.sampling = {.temperature = 0.5F, .seed = 11},
                        .label = "mine",
                        .resume_token = "secret",
                        .output = "metadata"};
    return request;
  }
  WorkerSequence Open(WorkerId worker, uint32_t prompt = 10, uint32_t max_new = 20,
                      const policy::CacheConfig& cache = FullCache()) {
    return MustOpen(coordinator_, Resumable(worker, prompt, max_new, cache));
  }
  absl::StatusOr<Claimed> Claim(WorkerId worker, SequenceId id,
                                const std::string& token = "secret") {
    return coordinator_.Claim({worker, id, token});
  }
  // Plays the next worker, which continues a claimed sequence.
  void Adopt(WorkerId worker, const Claimed& claimed, WorkerSequence* sequence) {
    sequence->worker = worker;
    sequence->epoch = claimed.lease_epoch;
    sequence->logical = claimed.logical_length.value();
    sequence->known = static_cast<uint32_t>(claimed.tokens.size());
    sequence->plan = claimed.plan;
    for (size_t layer = 0; layer < claimed.layers.size(); ++layer) {
      sequence->tables[layer] = claimed.layers[layer].pages;
      sequence->resident[layer] = claimed.layers[layer].resident.value();
    }
  }

  Harness harness_{{.pages = kPages, .orphan_ttl = absl::Seconds(30)}};
  Coordinator& coordinator_ = *harness_.coordinator;
  WorkerId first_ = coordinator_.AddWorker("first");
  WorkerId second_ = coordinator_.AddWorker("second");
};

}  // namespace folio::cache

#endif  // FOLIO_TESTS_CACHE_ORPHAN_FIXTURE_H_
