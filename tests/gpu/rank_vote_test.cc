#include "services/model/cuda/rank_vote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/base/steady_time.h"
#include "tests/collective/ranks.h"

namespace folio::model {
namespace {

using collective::testing::RanksAre;
using ::testing::Each;
using ::testing::HasSubstr;

// What each of three ranks gets to know.
std::vector<std::string> VoteOfThree(const std::vector<std::string>& objections,
                                     uint64_t subject_of_last = 7) {
  return collective::testing::RunRanks(
      RanksAre::kThreads, 3, 1 << 12, [&](collective::Collective& host) -> std::string {
        const uint32_t rank = host.rank().value();
        const auto answer = Vote(host, rank == 2 ? subject_of_last : 7, objections[rank],
                                 SteadyNow() + absl::Seconds(20));
        return answer.ok() ? *answer : answer.status().ToString();
      });
}

TEST(RankVoteTest, AllRanksGetTheFirstObjection) {
  EXPECT_THAT(VoteOfThree({"", "", ""}), Each(""));
  EXPECT_THAT(VoteOfThree({"", "", "no memory"}), Each("rank 2: no memory"));
  EXPECT_THAT(VoteOfThree({"", "no graphs", "no memory"}), Each("rank 1: no graphs"));
}

TEST(RankVoteTest, LongObjectionsAreCut) {
  const std::string text(1000, 'x');
  EXPECT_THAT(VoteOfThree({text, "", ""}), Each(absl::StrCat("rank 0: ", text.substr(0, 212))));
}

TEST(RankVoteTest, VotesOnDifferentStepsEndTheGroup) {
  EXPECT_THAT(VoteOfThree({"", "", ""}, 8), Each(HasSubstr("vote on different steps")));
}

}  // namespace
}  // namespace folio::model
