// The load of folioctl bench: lengths, arrivals and requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "services/cli/load/lengths.h"
#include "services/cli/load/requests.h"
#include "services/cli/load/schedule.h"

namespace folio::load {
namespace {

using ::testing::HasSubstr;

SteadyTime At(double seconds) { return SteadyTime(absl::Seconds(seconds)); }

std::vector<uint32_t> Drawn(const std::string& text, uint32_t most, uint64_t seed = 1,
                            size_t count = 20000) {
  const auto lengths = Lengths::Parse(text);
  EXPECT_TRUE(lengths.ok()) << lengths.status();
  std::vector<uint32_t> drawn;
  SplitMix64 random = SplitMix64::Of({seed, 0});
  for (size_t i = 0; i < count; ++i) drawn.push_back(lengths->Draw(random, most));
  return drawn;
}

double Mean(const std::vector<uint32_t>& values) {
  double sum = 0;
  for (const uint32_t value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(Lengths, ANumberIsAlwaysTheSame) {
  EXPECT_THAT(Drawn("512", 1000), ::testing::Each(512));
  EXPECT_THAT(Drawn("512", 100), ::testing::Each(100));
  EXPECT_EQ(Lengths::Parse("512")->most(), 512);
}

TEST(Lengths, UniformReachesBothEndsAndItsMean) {
  const std::vector<uint32_t> drawn = Drawn("uniform:20..400", 1000);
  EXPECT_EQ(*std::min_element(drawn.begin(), drawn.end()), 20);
  EXPECT_EQ(*std::max_element(drawn.begin(), drawn.end()), 400);
  EXPECT_NEAR(Mean(drawn), 210, 3);
}

TEST(Lengths, LogNormalHasItsMeanAndItsSigma) {
  const std::vector<uint32_t> drawn = Drawn("lognormal:512,0.5", 1 << 20);
  EXPECT_NEAR(Mean(drawn), 512, 8);
  double logs = 0;
  double squares = 0;
  for (const uint32_t value : drawn) {
    logs += std::log(value);
    squares += std::log(value) * std::log(value);
  }
  const auto count = static_cast<double>(drawn.size());
  EXPECT_NEAR(std::sqrt(squares / count - logs * logs / count / count), 0.5, 0.01);
  EXPECT_EQ(Lengths::Parse("lognormal:512,0.5")->most(), std::nullopt);
}

// Numbers that were cut at the bound would pile up there.
TEST(Lengths, LogNormalIsDrawnAgainAboveTheBound) {
  const std::vector<uint32_t> drawn = Drawn("lognormal:512,0.5", 512);
  EXPECT_LE(*std::max_element(drawn.begin(), drawn.end()), 512);
  EXPECT_LT(std::count(drawn.begin(), drawn.end(), 512U), 100);
  EXPECT_EQ(Drawn("lognormal:100000,0", 50, 1, 2), (std::vector<uint32_t>{50, 50}));
}

TEST(Lengths, RepeatFromTheSeed) {
  for (const char* text : {"uniform:1..1000", "lognormal:300,1"}) {
    EXPECT_EQ(Drawn(text, 4000, 7), Drawn(text, 4000, 7));
    EXPECT_NE(Drawn(text, 4000, 7), Drawn(text, 4000, 8));
  }
}

TEST(Lengths, RefusesOtherTexts) {
  for (const char* wrong :
       {"", "0", "-5", "many", "12.5", "uniform", "uniform:", "uniform:5", "uniform:9..3",
        "uniform:0..3", "uniform:1..2..3", "lognormal:", "lognormal:512", "lognormal:0.5,1",
        "lognormal:512,-1", "lognormal:nan,1", "lognormal:512,nan", "normal:512,5"}) {
    const auto refused = Lengths::Parse(wrong);
    ASSERT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("lognormal:MEAN,SIGMA"));
  }
}

TEST(Schedule, ClientsOfAClosedLoopAskWhenTheyAreAnswered) {
  ClosedLoop loop(2, At(10));
  EXPECT_EQ(loop.Next(), At(10));
  loop.Sent();
  loop.Sent();
  EXPECT_EQ(loop.Next(), SteadyTime::InfiniteFuture());
  loop.Ended(At(12), /*ok=*/false);
  EXPECT_EQ(loop.Next(), At(12) + ClosedLoop::kPauseAfterFailure);
  loop.Ended(At(12.05), /*ok=*/true);
  EXPECT_EQ(loop.Next(), At(12.05));
}

std::vector<double> Gaps(double rate, double shape, uint64_t seed) {
  OpenLoop loop(rate, shape, seed, At(0));
  std::vector<double> gaps;
  SteadyTime last = At(0);
  for (int i = 0; i < 20000; ++i) {
    gaps.push_back(absl::ToDoubleSeconds(loop.Next() - last));
    last = loop.Next();
    loop.Sent();
    loop.Ended(last, /*ok=*/true);
  }
  return gaps;
}

// The variation of gaps is 1 in a Poisson process, and 1 / sqrt(shape) with another shape.
TEST(Schedule, ArrivalsOfAnOpenLoopHaveTheirRateAndShape) {
  for (const auto& [shape, variation] :
       std::vector<std::pair<double, double>>{{1, 1}, {0.25, 2}, {100, 0.1}}) {
    const std::vector<double> gaps = Gaps(50, shape, 3);
    double sum = 0;
    double squares = 0;
    for (const double gap : gaps) {
      sum += gap;
      squares += gap * gap;
    }
    const double mean = sum / static_cast<double>(gaps.size());
    const double deviation = std::sqrt(squares / static_cast<double>(gaps.size()) - mean * mean);
    EXPECT_NEAR(mean, 0.02, 0.001) << shape;
    EXPECT_NEAR(deviation / mean, variation, 0.06 * variation) << shape;
  }
  EXPECT_EQ(Gaps(50, 1, 3), Gaps(50, 1, 3));
  EXPECT_NE(Gaps(50, 1, 3), Gaps(50, 1, 4));
}

RequestPlan APlan() {
  RequestPlan plan;
  plan.prompt = *Lengths::Parse("uniform:5..50");
  plan.output = *Lengths::Parse("lognormal:40,1");
  plan.mix = {{"full", {}, 1}, {"other", {}, 3}};
  plan.mix[1].cache.set_budget_tokens(64);
  plan.tokens = {7, 8, 9};
  plan.context = 100;
  return plan;
}

TEST(Requests, FitIntoTheContextAndFollowTheWeights) {
  const RequestPlan plan = APlan();
  int others = 0;
  for (uint64_t number = 0; number < 4000; ++number) {
    const Made made = MakeRequest(plan, number);
    const auto& ids = made.request.input().tokens().ids();
    ASSERT_EQ(ids.size(), made.prompt_tokens);
    ASSERT_LE(made.prompt_tokens + made.request.max_tokens(), plan.context);
    for (const uint32_t id : ids)
      ASSERT_THAT(id, ::testing::AllOf(::testing::Ge(7), ::testing::Le(9)));
    EXPECT_TRUE(made.request.ignore_eos());
    EXPECT_EQ(made.request.cache().budget_tokens(), made.choice == 1 ? 64 : 0);
    others += made.choice == 1 ? 1 : 0;
  }
  EXPECT_NEAR(others, 3000, 100);
}

TEST(Requests, DependOnSeedAndNumberAlone) {
  RequestPlan plan = APlan();
  const std::string fifth = MakeRequest(plan, 5).request.SerializeAsString();
  MakeRequest(plan, 6);
  EXPECT_EQ(MakeRequest(plan, 5).request.SerializeAsString(), fifth);
  EXPECT_NE(MakeRequest(plan, 6).request.SerializeAsString(), fifth);
  plan.seed = 1;
  EXPECT_NE(MakeRequest(plan, 5).request.SerializeAsString(), fifth);
}

TEST(Requests, LengthsMustFitIntoTheContext) {
  RequestPlan plan = APlan();
  plan.output = *Lengths::Parse("50");
  EXPECT_TRUE(CheckLengths(plan).ok());
  plan.output = *Lengths::Parse("uniform:1..51");
  const absl::Status refused = CheckLengths(plan);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("context of 100"));
  plan.prompt = *Lengths::Parse("lognormal:4000,1");
  EXPECT_TRUE(CheckLengths(plan).ok());
  EXPECT_LE(MakeRequest(plan, 0).prompt_tokens, 49);
}

}  // namespace
}  // namespace folio::load
