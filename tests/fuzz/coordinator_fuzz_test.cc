// Random workers against the coordinator and its model; see README.md.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fuzz/fuzz_episode.h"
#include "tests/fuzz/fuzz_seed.h"

namespace folio::cache {
namespace {

constexpr uint64_t kShards = 4;
constexpr uint64_t kEpisodeSteps = 5000;
constexpr uint64_t kStepsToSeeAll = 100'000;

// The kinds of event that each long run should have seen. Rare ones first.
std::vector<std::pair<const char*, uint64_t>> Kinds(const Coverage& c) {
  const auto code = [&](absl::StatusCode status) { return c.status[static_cast<size_t>(status)]; };
  return {{"idle", c.idle},
          {"windows_moved", c.windows_moved},
          {"swapped_claims", c.swapped_claims},
          {"parked_claims", c.parked_claims},
          {"turns", c.turns},
          {"OK", code(absl::StatusCode::kOk)},
          {"INVALID_ARGUMENT", code(absl::StatusCode::kInvalidArgument)},
          {"NOT_FOUND", code(absl::StatusCode::kNotFound)},
          {"ABORTED", code(absl::StatusCode::kAborted)},
          {"RESOURCE_EXHAUSTED", code(absl::StatusCode::kResourceExhausted)},
          {"FAILED_PRECONDITION", code(absl::StatusCode::kFailedPrecondition)},
          {"compactions", c.compactions},
          {"streamed", c.streamed},
          {"drops", c.drops},
          {"plans_upon_ack", c.plans_upon_ack},
          {"commits_beside_a_plan", c.commits_beside_a_plan},
          {"grants", c.grants},
          {"uneven", c.uneven},
          {"acks", c.acks},
          {"closes", c.closes},
          {"deaths", c.deaths},
          {"goodbyes", c.goodbyes},
          {"expiries", c.expiries},
          {"claims", c.claims},
          {"claims_beside_a_plan", c.claims_beside_a_plan},
          {"orphans_expired", c.orphans_expired},
          {"orphans_in_the_way", c.orphans_in_the_way},
          {"given_up", c.given_up},
          {"regained", c.regained},
          {"parks", c.parks},
          {"unparks", c.unparks},
          {"asked_back", c.asked_back},
          {"relieved", c.relieved},
          {"waits", c.waits},
          {"offers", c.offers},
          {"swaps_out", c.swaps_out},
          {"swaps_in", c.swaps_in},
          {"ordered_closes", c.ordered_closes},
          {"ordered_parks", c.ordered_parks},
          {"pins", c.pins},
          {"lowered", c.lowered},
          {"lowered_away", c.lowered_away},
          {"lowered_beside_a_plan", c.lowered_beside_a_plan},
          {"fallen", c.fallen},
          {"falls_in_steps", c.falls_in_steps},
          {"decodes_in_a_fall", c.decodes_in_a_fall},
          {"restarts", c.restarts},
          {"kept", c.kept},
          {"again", c.again},
          {"plans_kept", c.plans_kept},
          {"over_quota", c.over_quota}};
}

bool EverythingHappened(const Coverage& coverage) {
  const auto kinds = Kinds(coverage);
  return std::all_of(kinds.begin(), kinds.end(), [](const auto& kind) { return kind.second > 0; });
}

void ExpectEverythingHappened(const Coverage& c) {
  const auto code = [&](absl::StatusCode status) { return c.status[static_cast<size_t>(status)]; };
  for (const auto& [name, count] : Kinds(c)) EXPECT_GT(count, 0U) << name;
  std::printf(
      "ok %lu, compactions %lu, in prefill %lu, drops %lu, planned upon ack %lu, commits beside a "
      "plan %lu, "
      "pool full %lu, expiries %lu, claims %lu, orphans expired %lu, in the way %lu, "
      "given up %lu (%lu computed again), parked %lu and again %lu, asked back %lu, relieved %lu, "
      "claimed parked %lu, offered slots %lu, swapped out %lu (%lu with a plan) and in %lu, "
      "claimed swapped %lu, let in by turn %lu, asked back idle %lu, budgets lowered %lu (%lu of "
      "parked ones and orphans, %lu beside a plan) and reached %lu\n",
      code(absl::StatusCode::kOk), c.compactions, c.streamed, c.drops, c.plans_upon_ack,
      c.commits_beside_a_plan, code(absl::StatusCode::kResourceExhausted), c.expiries, c.claims,
      c.orphans_expired, c.orphans_in_the_way, c.given_up, c.regained, c.parks, c.unparks,
      c.asked_back, c.relieved, c.parked_claims, c.offers, c.swaps_out, c.swaps_with_a_plan,
      c.swaps_in, c.swapped_claims, c.turns, c.idle, c.lowered, c.lowered_away,
      c.lowered_beside_a_plan, c.fallen);
}

class CoordinatorFuzz : public ::testing::TestWithParam<uint64_t> {};

TEST_P(CoordinatorFuzz, AgreesWithTheModelAfterEachStep) {
  const uint64_t steps = FromEnvironment("FOLIO_FUZZ_STEPS", 1'000'000) / kShards;
  const uint64_t seed = FromEnvironment("FOLIO_FUZZ_SEED", std::random_device()());
  std::printf("FOLIO_FUZZ_SEED=%" PRIu64 ", %" PRIu64 " steps\n", seed, steps);
  Coverage coverage;
  // A run of usual length misses the rarest kind of event once in some hundred times, and goes on.
  const bool to_see_all = steps >= kStepsToSeeAll;
  const auto enough = [&](uint64_t done) {
    return done >= steps && (!to_see_all || done >= 8 * steps || EverythingHappened(coverage));
  };
  for (uint64_t done = 0, episode = 0; !enough(done); done += kEpisodeSteps, ++episode) {
    const uint64_t episode_seed = (seed * kShards + GetParam()) * 1'000'003 + episode;
    Episode run(episode_seed, coverage);
    const uint64_t left = done < steps ? steps - done : kEpisodeSteps;
    ASSERT_EQ(run.Run(std::min(kEpisodeSteps, left)), "")
        << "repeat with FOLIO_FUZZ_SEED=" << seed << ", episode " << episode;
  }
  if (to_see_all) ExpectEverythingHappened(coverage);
  if (steps >= 1'000'000) {  // it is rarer
    EXPECT_GT(coverage.swaps_with_a_plan, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, CoordinatorFuzz, ::testing::Range(uint64_t{0}, kShards));

}  // namespace
}  // namespace folio::cache
