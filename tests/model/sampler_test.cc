#include "services/model/executor/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace folio::model {
namespace {

using ::testing::ElementsAre;

using Words = std::array<uint32_t, 4>;

// The known answers that come with Random123, philox4x32 of 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, IsTheFirst53BitsOfTheBlock) {
  EXPECT_EQ(UniformAt(0, Position(0)), double(0x6627e8d5e169c58dULL >> 11) / 9007199254740992.0);
  EXPECT_NE(UniformAt(1, Position(0)), UniformAt(0, Position(0)));
  EXPECT_NE(UniformAt(uint64_t{1} << 32, Position(0)), UniformAt(0, Position(0)));
  EXPECT_NE(UniformAt(0, Position(1)), UniformAt(0, Position(0)));
}

TEST(Greedy, LowestIdOnTies) {
  EXPECT_EQ(Argmax({1.f, 3.f, 2.f, 3.f}), TokenId(1));
  EXPECT_EQ(Sample({1.f, 3.f, 2.f, 3.f}, SamplingRecord{}, Position(9)), TokenId(1));
  SamplingRecord one;
  one.temperature = 1;
  one.top_k = 1;
  EXPECT_EQ(Sample({5.f, 5.f}, one, Position(3)), TokenId(0));
}

// The probabilities Sample should draw with, computed the long way.
std::map<uint32_t, double> Expected(const std::vector<float>& logits, const SamplingRecord& s) {
  std::vector<double> p;
  p.reserve(logits.size());
  for (const float logit : logits) p.push_back(std::exp(double{logit} / s.temperature));
  std::vector<uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
  const double best = p[order[0]];
  std::vector<uint32_t> left;
  for (const uint32_t id : order) {
    if (p[id] >= s.min_p * best) left.push_back(id);
  }
  if (s.top_k > 0 && left.size() > s.top_k) left.resize(s.top_k);
  double total = 0;
  for (const uint32_t id : left) total += p[id];
  std::map<uint32_t, double> kept;
  double sum = 0;
  for (const uint32_t id : left) {
    if (!kept.empty() && sum >= s.top_p * total) break;
    kept[id] = p[id];
    sum += p[id];
  }
  for (auto& [id, weight] : kept) weight /= sum;
  return kept;
}

// Draws at many positions; a chi-square test at five standard deviations.
void ExpectDistribution(const std::vector<float>& logits, const SamplingRecord& sampling) {
  constexpr int kDraws = 20000;
  const auto expected = Expected(logits, sampling);
  std::map<uint32_t, int> counts;
  for (int i = 0; i < kDraws; ++i) {
    ++counts[Sample(logits, sampling, Position(i)).value()];
  }
  double chi_square = 0;
  int cells = 0;
  double rare = 0;  // cells too small for the test, together
  int rare_count = 0;
  for (const auto& [id, p] : expected) {
    if (p * kDraws < 8) {
      rare += p * kDraws;
      rare_count += counts[id];
    } else {
      chi_square += std::pow(counts[id] - p * kDraws, 2) / (p * kDraws);
      ++cells;
    }
    counts.erase(id);
  }
  if (rare > 0) chi_square += std::pow(rare_count - rare, 2) / std::max(rare, 1.0);
  for (const auto& [id, count] : counts) EXPECT_EQ(count, 0) << "token " << id << " is filtered";
  EXPECT_LT(chi_square, cells + 5 * std::sqrt(2.0 * cells) + 5) << "seed " << sampling.seed;
}

std::vector<float> RandomLogits(int count, float spread, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(Sample, FollowsTheDistribution) {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const std::vector<float> logits = RandomLogits(60, 2, seed);
  SamplingRecord plain;
  plain.seed = seed;
  plain.temperature = 1;
  ExpectDistribution(logits, plain);
  SamplingRecord warm = plain;
  warm.temperature = 1.7f;
  ExpectDistribution(logits, warm);
  SamplingRecord top_k = plain;
  top_k.top_k = 5;
  ExpectDistribution(logits, top_k);
  SamplingRecord top_p = plain;
  top_p.top_p = 0.6f;
  ExpectDistribution(logits, top_p);
  SamplingRecord min_p = plain;
  min_p.min_p = 0.1f;
  ExpectDistribution(logits, min_p);
  SamplingRecord all = plain;
  all.temperature = 0.8f;
  all.top_k = 12;
  all.top_p = 0.9f;
  all.min_p = 0.02f;
  ExpectDistribution(logits, all);
}

TEST(Sample, TopKTakesTheLowerIdOnTies) {
  SamplingRecord sampling;
  sampling.temperature = 1;
  sampling.top_k = 2;
  const std::vector<float> logits = {0, 2, 2, 2};
  for (int i = 0; i < 200; ++i) {
    EXPECT_THAT(Sample(logits, sampling, Position(i)).value(), ::testing::AnyOf(1, 2));
  }
}

// Filters at their ends leave at least the best token.
TEST(Sample, ExtremeSettings) {
  const std::vector<float> logits = {-1000, 3, 2.5f, 1e30f, -1e30f};
  SamplingRecord sampling;
  sampling.temperature = 1e-38f;
  EXPECT_EQ(Sample(logits, sampling, Position(0)), TokenId(3));
  sampling = {};
  sampling.temperature = 1;
  sampling.top_p = 0;
  EXPECT_EQ(Sample(logits, sampling, Position(0)), TokenId(3));
  sampling.top_p = 1;
  sampling.min_p = 1;
  EXPECT_EQ(Sample(logits, sampling, Position(0)), TokenId(3));
  sampling.min_p = 0;
  sampling.top_k = 1000000;
  EXPECT_EQ(Sample(logits, sampling, Position(0)), TokenId(3));
}

TEST(Sample, DependsOnSeedAndPositionAlone) {
  const std::vector<float> logits = RandomLogits(1000, 1, 5);
  SamplingRecord sampling;
  sampling.temperature = 1;
  sampling.seed = 77;
  int same = 0;
  for (int i = 0; i < 50; ++i) {
    const TokenId first = Sample(logits, sampling, Position(i));
    EXPECT_EQ(Sample(logits, sampling, Position(i)), first);
    SamplingRecord other = sampling;
    other.seed = 78;
    same += Sample(logits, other, Position(i)) == first;
  }
  EXPECT_LT(same, 10);
}

TEST(Logprobs, SumToOne) {
  const std::vector<float> logits = RandomLogits(5000, 3, 6);
  const double log_sum = LogSumExp(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - log_sum);
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_NEAR(LogSumExp({1000.f, 1000.f}), 1000 + std::log(2.0), 1e-9);
}

TEST(Logprobs, TopInOrderLowerIdFirst) {
  const std::vector<float> logits = {1, 4, 2, 4, 3, 4};
  const auto top = TopLogprobs(logits, 4.0, 4);
  EXPECT_THAT(top, ElementsAre(std::pair(TokenId(1), 0.f), std::pair(TokenId(3), 0.f),
                               std::pair(TokenId(5), 0.f), std::pair(TokenId(4), -1.f)));
  EXPECT_TRUE(TopLogprobs(logits, 4.0, 0).empty());
  EXPECT_EQ(TopLogprobs(logits, 4.0, 100).size(), logits.size());
}

}  // namespace
}  // namespace folio::model
