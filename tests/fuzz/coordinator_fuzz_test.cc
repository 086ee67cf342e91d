// Random workers against the coordinator and its model; see README.md.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "gtest/gtest.h"
#include "tests/fuzz/fuzz_episode.h"

namespace folio::cache {
namespace {

constexpr uint64_t kShards = 4;
constexpr uint64_t kEpisodeSteps = 5000;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void ExpectEverythingHappened(const Coverage& c) {
  const auto code = [&](absl::StatusCode status) { return c.status[static_cast<size_t>(status)]; };
  EXPECT_GT(code(absl::StatusCode::kOk), 0U);
  EXPECT_GT(code(absl::StatusCode::kInvalidArgument), 0U);
  EXPECT_GT(code(absl::StatusCode::kNotFound), 0U);
  EXPECT_GT(code(absl::StatusCode::kResourceExhausted), 0U);
  EXPECT_GT(code(absl::StatusCode::kFailedPrecondition), 0U);
  for (uint64_t count :
       {c.compactions, c.drops, c.plans_upon_ack, c.commits_beside_a_plan, c.grants, c.uneven,
        c.acks, c.closes, c.deaths, c.goodbyes, c.expiries, c.claims, c.claims_beside_a_plan,
        c.orphans_expired, c.orphans_in_the_way}) {
    EXPECT_GT(count, 0U);
  }
  std::printf(
      "ok %lu, compactions %lu, drops %lu, planned upon ack %lu, commits beside a plan %lu, "
      "pool full %lu, expiries %lu, claims %lu, orphans expired %lu, in the way %lu\n",
      code(absl::StatusCode::kOk), c.compactions, c.drops, c.plans_upon_ack,
      c.commits_beside_a_plan, code(absl::StatusCode::kResourceExhausted), c.expiries, c.claims,
      c.orphans_expired, c.orphans_in_the_way);
}

class CoordinatorFuzz : public ::testing::TestWithParam<uint64_t> {};

TEST_P(CoordinatorFuzz, AgreesWithTheModelAfterEachStep) {
  const uint64_t steps = FromEnvironment("FOLIO_FUZZ_STEPS", 1'000'000) / kShards;
  const uint64_t seed = FromEnvironment("FOLIO_FUZZ_SEED", std::random_device()());
  std::printf("FOLIO_FUZZ_SEED=%" PRIu64 ", %" PRIu64 " steps\n", seed, steps);
  Coverage coverage;
  for (uint64_t done = 0, episode = 0; done < steps; done += kEpisodeSteps, ++episode) {
    const uint64_t episode_seed = (seed * kShards + GetParam()) * 1'000'003 + episode;
    Episode run(episode_seed, coverage);
    ASSERT_EQ(run.Run(std::min(kEpisodeSteps, steps - done)), "")
        << "repeat with FOLIO_FUZZ_SEED=" << seed << ", episode " << episode;
  }
  if (steps >= 100'000) ExpectEverythingHappened(coverage);
}

INSTANTIATE_TEST_SUITE_P(Shard, CoordinatorFuzz, ::testing::Range(uint64_t{0}, kShards));

}  // namespace
}  // namespace folio::cache
