// The measures of folioctl bench, from numbers that are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "services/cli/load/full_load.h"
#include "services/cli/load/goals.h"
#include "services/cli/load/histogram.h"
#include "services/cli/load/tally.h"

namespace folio::load {
namespace {

SteadyTime Moment(double seconds) { return SteadyTime(absl::Seconds(seconds)); }

TEST(Histogram, HasPercentilesOfWhatWasAdded) {
  Histogram times;
  EXPECT_EQ(times.Percentile(0.5), 0);
  for (int i = 1000; i >= 1; --i) times.Add(i * 1e-3);
  EXPECT_NEAR(times.mean(), 0.5005, 1e-9);
  EXPECT_EQ(times.max(), 1.0);
  for (const double share : {0.001, 0.5, 0.9, 0.99, 1.0}) {
    EXPECT_NEAR(times.Percentile(share), share, 0.004 * share) << share;
  }
}

TEST(Histogram, IsRightInEveryMagnitude) {
  for (double value = 1e-9; value < 1e9; value *= 1.37) {
    Histogram times;
    times.Add(value);
    EXPECT_EQ(times.Percentile(0.5), value) << "of one value, the least and the largest are known";
    times.Add(value / 3);
    times.Add(value * 3);
    EXPECT_NEAR(times.Percentile(0.5), value, 0.004 * value + 1e-9);
  }
  Histogram times;
  times.Add(-1);
  times.Add(1e12);
  EXPECT_EQ(times.Percentile(0), 0);
  EXPECT_EQ(times.max(), 1e9);
}

TEST(Histogram, SumsAreAsIfAllWereInOne) {
  Histogram all;
  Histogram parts[2];
  for (int i = 0; i < 500; ++i) {
    const double value = 1e-4 * (i * i % 977 + 1);
    all.Add(value);
    parts[i % 2].Add(value);
  }
  Histogram merged;
  merged.Merge(parts[0]);
  merged.Merge(parts[1]);
  merged.Merge(Histogram());
  EXPECT_EQ(merged.count(), 500);
  EXPECT_NEAR(merged.mean(), all.mean(), 1e-12);
  for (const double share : {0.0, 0.1, 0.5, 0.99, 1.0}) {
    EXPECT_EQ(merged.Percentile(share), all.Percentile(share));
  }
}

// 0.2 s to the first token, gaps of 40 and 60 ms that bring 3 tokens, 1 s in all.
Outcome AnAnswer() {
  Outcome outcome;
  outcome.asked = Moment(5);
  outcome.ended = Moment(6);
  outcome.first = 0.2;
  outcome.gaps = {0.04F, 0.06F};
  outcome.per_token = 0.1 / 3;
  outcome.prompt_tokens = 10;
  outcome.output_tokens = 4;
  return outcome;
}

TEST(Goals, AreMetWithinAllBounds) {
  for (const auto& [text, met] :
       std::vector<std::pair<std::string, bool>>{{"ttft:200ms", true},
                                                 {"ttft:199ms", false},
                                                 {"itl:51ms", true},
                                                 {"itl:49ms", false},
                                                 {"tpot:34ms", true},
                                                 {"tpot:33ms", false},
                                                 {"e2e:1s", true},
                                                 {"e2e:999ms", false},
                                                 {"ttft:1s,itl:1s,tpot:1s,e2e:2s", true},
                                                 {"ttft:1s,itl:1s,tpot:1s,e2e:0.5s", false}}) {
    const auto goals = Goals::Parse(text);
    ASSERT_TRUE(goals.ok()) << goals.status();
    EXPECT_EQ(goals->Met(AnAnswer()), met) << text;
  }
  Outcome failed = AnAnswer();
  failed.status = absl::UnavailableError("gone");
  EXPECT_FALSE(Goals().Met(failed));
  EXPECT_TRUE(Goals().Met(AnAnswer()));
  Outcome of_one_token = AnAnswer();
  of_one_token.gaps.clear();
  of_one_token.per_token.reset();
  EXPECT_TRUE(Goals::Parse("itl:1ms,tpot:1ms")->Met(of_one_token));
}

TEST(Goals, RefusesOtherTexts) {
  for (const char* wrong : {"", "ttft", "ttft:", "ttft:500", "ttft:0s", "ttft:-1s", "itl:soon",
                            "first:1s", "ttft:1s,", "ttft:1s,ttft:2s", "e2e=1s"}) {
    EXPECT_EQ(Goals::Parse(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(Tally, CountsAnswersAndFailuresApart) {
  Tally tally;
  const Goals goals = *Goals::Parse("ttft:100ms");
  tally.Add(AnAnswer(), goals, /*cancelled=*/false);
  Outcome quick = AnAnswer();
  quick.first = 0.05;
  quick.waited = true;
  quick.resumed = 2;
  tally.Add(quick, goals, /*cancelled=*/false);
  Outcome refused = AnAnswer();
  refused.status = absl::ResourceExhaustedError("full");
  tally.Add(refused, goals, /*cancelled=*/false);
  refused.status = absl::ResourceExhaustedError("full again");
  tally.Add(refused, goals, /*cancelled=*/true);
  Outcome cut = AnAnswer();
  cut.status = absl::CancelledError("Ctrl-C");
  tally.Add(cut, goals, /*cancelled=*/true);
  EXPECT_EQ(tally.cut, 1);
  tally.Add(cut, goals, /*cancelled=*/false);

  EXPECT_EQ(tally.answered, 2);
  EXPECT_EQ(tally.good, 1);
  EXPECT_EQ(tally.waited, 1);
  EXPECT_EQ(tally.resumed, 1);
  EXPECT_EQ(tally.output_tokens, 8);
  EXPECT_EQ(tally.prompt_tokens, 20);
  EXPECT_EQ(tally.gaps.count(), 4);
  EXPECT_EQ(tally.failed(), 3);
  EXPECT_EQ(tally.counted(), 5);
  EXPECT_EQ(tally.failures[absl::StatusCode::kResourceExhausted].count, 2);
  EXPECT_EQ(tally.failures[absl::StatusCode::kResourceExhausted].first, "full");
  EXPECT_EQ(tally.failures[absl::StatusCode::kCancelled].count, 1);
}

TEST(FullLoad, CountsWhileAllClientsDecode) {
  FullLoad full(2);
  full.Count(1);
  full.Begin(Moment(1));
  full.Count(50);
  full.Count(1);
  full.Begin(Moment(3));
  full.Count(100);
  full.End(Moment(5));
  full.Count(7);
  full.Begin(Moment(6));
  full.Count(10);
  full.End(Moment(6.5));
  full.End(Moment(8));
  EXPECT_EQ(full.tokens(), 169);
  EXPECT_EQ(full.counted(), 110);
  EXPECT_NEAR(full.seconds(), 2.5, 1e-9);
}

}  // namespace
}  // namespace folio::load
