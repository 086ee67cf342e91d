// Episode is one random life of a coordinator, from its first page to its last.
#ifndef FOLIO_TESTS_FUZZ_FUZZ_EPISODE_H_
#define FOLIO_TESTS_FUZZ_FUZZ_EPISODE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/cache/coordinator_harness.h"
#include "tests/fuzz/cache_model.h"
#include "tests/fuzz/episode_record.h"
#include "tests/fuzz/model_tenants.h"

namespace folio::cache {

// Coverage counts what happened, so that a run that tests nothing is noticed.
struct Coverage {
  std::array<uint64_t, 17> status = {};  // of all calls, by code
  uint64_t compactions = 0, streamed = 0, drops = 0, plans_upon_ack = 0, commits_beside_a_plan = 0,
           grants = 0, uneven = 0, acks = 0, closes = 0, deaths = 0, goodbyes = 0, expiries = 0,
           claims = 0, claims_beside_a_plan = 0, orphans_expired = 0, orphans_in_the_way = 0,
           given_up = 0, regained = 0, parks = 0, unparks = 0, asked_back = 0, relieved = 0,
           waits = 0, parked_claims = 0, offers = 0, swaps_out = 0, swaps_in = 0,
           swaps_with_a_plan = 0, swapped_claims = 0, turns = 0, idle = 0, ordered_closes = 0,
           ordered_parks = 0, pins = 0, lowered = 0, lowered_away = 0, lowered_beside_a_plan = 0,
           fallen = 0, falls_in_steps = 0, decodes_in_a_fall = 0, restarts = 0, kept = 0, again = 0,
           plans_kept = 0, over_quota = 0, windows_moved = 0;
};

// One coordinator from its first page to its last.
class Episode {
 public:
  // Without `make` the record is in memory.
  Episode(uint64_t seed, Coverage& coverage, const MakeEpisodeRecord& make = nullptr)
      : random_(seed),
        coverage_(coverage),
        page_tokens_(std::array<uint32_t, 4>{1, 2, 4, 8}[Pick(4)]),
        greedy_(OneIn(2)),
        pages_(8 + Pick(greedy_ ? 40 : 90)),
        orphan_seconds_(OneIn(4) ? 0 : 1 + Pick(60)),
        grace_seconds_(OneIn(3) ? 0 : Pick(20)),
        admission_(OneIn(3) ? Admission::kReserve : Admission::kOptimistic),
        swap_slots_(OneIn(6) ? 0 : Pick(2 * pages_)),
        layers_(1 + Pick(3)),
        harness_({.pages = pages_,
                  .layers = layers_,
                  .kv_heads = 1 + Pick(2),
                  .page_tokens = page_tokens_,
                  .orphan_ttl = absl::Seconds(orphan_seconds_),
                  .orphan_grace = absl::Seconds(grace_seconds_),
                  .admission = admission_,
                  .swap_slots = swap_slots_,
                  .windows = RandomWindows()}),
        model_(harness_.geometry, pages_, &harness_.board, orphan_seconds_, grace_seconds_,
               admission_, swap_slots_) {
    if (!make) return;
    record_ = make(harness_, seed);
    harness_.options.journal = &record_->journal();
    harness_.coordinator = std::make_unique<Coordinator>(harness_.options);
  }

  // "" or what was wrong.
  std::string Run(uint64_t steps);

 private:
  uint32_t Pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  bool OneIn(uint32_t n) { return Pick(n) == 0; }
  LayerWindows RandomWindows();

  std::string Step();
  std::string Compare();
  std::vector<WorkerId> Workers() const;
  // All workers go; every page must come home.
  std::string End();

  // Records the answer; "" if it is the expected one.
  std::string Expect(absl::StatusCode expected, const absl::Status& got, const char* call);

  SequenceId AnySequence();
  WorkerId AnyWorker();

  std::string AddWorker();
  std::string EndWorker();
  // The manager is killed, and the next one takes over.
  std::string Restart();
  std::string LetTimePass();

  std::string Renew();
  // An orphan more often than not.
  std::string Claim();
  // The worker that claimed a sequence is lost at once, and so is the next one.
  std::string LoseInVain(ClaimRequest request);
  // Parameters that fit the small sequences of an episode.
  void SetParameters(policy::PolicySpec& spec);
  policy::KvCrushSpec RandomCrush();
  OpenRequest RandomOpen();

  std::string Open();
  // A commit that the rules allow if the sequence's state does.
  CommitRequest GoodCommit(SequenceId id);
  // Breaks one thing, mostly against the rules; the model says whether it was.
  void Break(CommitRequest& commit);

  // Small whole numbers, so that means are exact in any order. Now and then NaN or infinity.
  float RandomScore();

  void WriteScores(const CommitRequest& commit);
  void Note(const Outcome& outcome);

  std::string Commit();
  std::string Ack();
  std::string Close();
  // Parks, more often than not, a sequence that was asked back.
  std::string Park();
  std::string Unpark();
  std::string Attend(WorkerId worker);
  std::string Steer();
  // Mostly of another sequence than `id`, which decodes.
  std::string LowerBudget(SequenceId id);
  WorkerAbilities RandomAbilities();
  std::string AnyTenant();
  void SetQuota();

  std::mt19937_64 random_;
  Coverage& coverage_;
  const uint32_t page_tokens_;
  const bool greedy_;  // short prompts may have long answers, so that the pool runs dry
  const uint32_t pages_;
  const int64_t orphan_seconds_, grace_seconds_;
  const Admission admission_;
  const uint32_t swap_slots_;
  const uint32_t layers_;
  Harness harness_;
  std::unique_ptr<EpisodeRecord> record_;
  CacheModel model_;
  ModelTenants tenants_{model_};
};

}  // namespace folio::cache

#endif  // FOLIO_TESTS_FUZZ_FUZZ_EPISODE_H_
