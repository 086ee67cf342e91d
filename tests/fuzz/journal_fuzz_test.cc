// Random workers against a coordinator whose journal is in files, which managers read after they
// were killed; see README.md.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <random>

#include "gtest/gtest.h"
#include "tests/fuzz/fuzz_episode.h"
#include "tests/fuzz/fuzz_seed.h"
#include "tests/fuzz/journal_record.h"

namespace folio::manager {
namespace {

constexpr uint64_t kEpisodeSteps = 5000;
constexpr uint64_t kStepsToSeeAll = 50'000;

TEST(JournalFuzz, TheNextManagerReadsWhatTheLastOneKnew) {
  const uint64_t steps = cache::FromEnvironment("FOLIO_JOURNAL_FUZZ_STEPS", 100'000);
  const uint64_t seed = cache::FromEnvironment("FOLIO_FUZZ_SEED", std::random_device()());
  std::printf("FOLIO_FUZZ_SEED=%" PRIu64 ", %" PRIu64 " steps\n", seed, steps);
  cache::Coverage coverage;
  JournalCoverage journal;
  const auto make = [&](cache::Harness& harness, uint64_t episode_seed) {
    return std::make_unique<JournalRecord>(harness, episode_seed, journal);
  };
  for (uint64_t done = 0, episode = 0; done < steps; done += kEpisodeSteps, ++episode) {
    cache::Episode run(seed * 1'000'003 + episode, coverage, make);
    ASSERT_EQ(run.Run(std::min(kEpisodeSteps, steps - done)), "")
        << "repeat with FOLIO_FUZZ_SEED=" << seed << ", episode " << episode;
  }
  std::printf("restarts %" PRIu64 ", sequences kept %" PRIu64 ", files begun %" PRIu64
              ", deaths meanwhile %" PRIu64 ", images %" PRIu64 " (%" PRIu64
              " torn), cuts within a step %" PRIu64 "\n",
              coverage.restarts, coverage.kept, journal.files, journal.deaths_while_told_again,
              journal.images, journal.torn, journal.cuts);
  if (steps < kStepsToSeeAll) return;
  EXPECT_GT(coverage.restarts, 0U);
  EXPECT_GT(coverage.kept, 0U);
  EXPECT_GT(journal.files, 0U);
  EXPECT_GT(journal.deaths_while_told_again, 0U);
  EXPECT_GT(journal.torn, 0U);
  EXPECT_GT(journal.cuts, 0U);
}

}  // namespace
}  // namespace folio::manager
