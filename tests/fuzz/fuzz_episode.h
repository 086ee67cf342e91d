// Episode is one random life of a coordinator, from its first page to its last.
#ifndef FOLIO_TESTS_FUZZ_FUZZ_EPISODE_H_
#define FOLIO_TESTS_FUZZ_FUZZ_EPISODE_H_

#include <array>
#include <cstdint>
#include <random>
#include <string>

#include "tests/cache/coordinator_harness.h"
#include "tests/fuzz/cache_model.h"

namespace folio::cache {

// Coverage counts what happened, so that a run that tests nothing is noticed.
struct Coverage {
  std::array<uint64_t, 17> status = {};  // of all calls, by code
  uint64_t compactions = 0, drops = 0, plans_upon_ack = 0, commits_beside_a_plan = 0, grants = 0,
           uneven = 0, acks = 0, closes = 0, deaths = 0, goodbyes = 0, expiries = 0, claims = 0,
           claims_beside_a_plan = 0, orphans_expired = 0, orphans_in_the_way = 0;
};

// One coordinator from its first page to its last.
class Episode {
 public:
  Episode(uint64_t seed, Coverage& coverage)
      : random_(seed),
        coverage_(coverage),
        page_tokens_(std::array<uint32_t, 4>{1, 2, 4, 8}[Pick(4)]),
        pages_(8 + Pick(90)),
        orphan_seconds_(OneIn(4) ? 0 : 1 + Pick(60)),
        harness_({.pages = pages_,
                  .layers = 1 + Pick(3),
                  .kv_heads = 1 + Pick(2),
                  .page_tokens = page_tokens_,
                  .orphan_ttl = absl::Seconds(orphan_seconds_)}),
        model_(harness_.geometry, pages_, &harness_.board, orphan_seconds_) {}

  // "" or what was wrong.
  std::string Run(uint64_t steps);

 private:
  uint32_t Pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  bool OneIn(uint32_t n) { return Pick(n) == 0; }

  std::string Step();
  std::string Compare();
  // All workers go; every page must come home.
  std::string End();

  // Records the answer; "" if it is the expected one.
  std::string Expect(absl::StatusCode expected, const absl::Status& got, const char* call);

  SequenceId AnySequence();
  WorkerId AnyWorker();

  std::string AddWorker();
  std::string EndWorker();
  std::string LetTimePass();

  std::string Renew();
  // An orphan more often than not.
  std::string Claim();
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

  std::mt19937_64 random_;
  Coverage& coverage_;
  const uint32_t page_tokens_;
  const uint32_t pages_;
  const int64_t orphan_seconds_;
  Harness harness_;
  CacheModel model_;
};

}  // namespace folio::cache

#endif  // FOLIO_TESTS_FUZZ_FUZZ_EPISODE_H_
