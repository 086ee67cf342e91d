// ForwardTest compares the forward pass of a family of kernels, which is its parameter, with a
// naive one in double precision.
#ifndef FOLIO_TESTS_MODEL_FORWARD_TEST_H_
#define FOLIO_TESTS_MODEL_FORWARD_TEST_H_

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/executor_harness.h"
#include "tests/model/naive_model.h"

namespace folio::model::testing {

using Logprobs = std::vector<std::vector<float>>;

inline std::vector<float> Normalised(const Numbers& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - max);
  std::vector<float> logprobs;
  for (const double x : logits) logprobs.push_back(static_cast<float>(x - max - std::log(sum)));
  return logprobs;
}

struct Difference {
  float largest = 0;
  float mean = 0;
};

inline Difference Compare(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  Difference difference;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_FALSE(std::isnan(a[i]));
    const float one = std::abs(a[i] - b[i]);
    difference.largest = std::max(difference.largest, one);
    difference.mean += one / static_cast<float>(a.size());
  }
  return difference;
}

class ForwardTest : public ::testing::TestWithParam<std::string> {
 protected:
  void ExpectNaiveEvictions(const ModelConfig& config);

  // K and V may be rounded to the other bf16 neighbour; fast families round activations too. The
  // log-probabilities span about 30.
  void ExpectClose(const std::vector<float>& a, const std::vector<float>& b) const {
    const Difference difference = Compare(a, b);
    EXPECT_LT(difference.largest, GetParam() == "plain" ? 0.02f : 0.6f);
    EXPECT_LT(difference.mean, GetParam() == "plain" ? 0.005f : 0.15f);
  }

  void ExpectNaive(const ModelConfig& config) {
    ExecutorHarness harness(GetParam(), config);
    NaiveModel naive(harness.model());
    const Tokens prompt = RandomTokens(37, config.vocab, 1);
    const Tokens fed = RandomTokens(20, config.vocab, 2);
    const Logprobs logprobs = harness.RunAlone(harness.Open(60), prompt, fed);
    Numbers last;
    for (const uint32_t token : prompt) last = naive.Feed(token);
    ASSERT_EQ(logprobs.size(), fed.size() + 1);
    ExpectClose(logprobs[0], Normalised(last));
    for (size_t i = 0; i < fed.size(); ++i) {
      ExpectClose(logprobs[i + 1], Normalised(naive.Feed(fed[i])));
    }
  }
};

inline void ForwardTest::ExpectNaiveEvictions(const ModelConfig& config) {
  ExecutorHarness harness(GetParam(), config);
  NaiveModel naive(harness.model());
  Executor& executor = harness.executor();
  const SequenceSlot slot = harness.Open(64, kernels::ScoreKind::kNormRatio);
  const Tokens prompt = RandomTokens(61, 101, 30);
  harness.RunAlone(slot, prompt, {});
  for (const uint32_t token : prompt) naive.Feed(token);

  // 32 survivors, others in each layer; two blocks and one spare stay.
  const std::vector<std::vector<uint32_t>> keep = [] {
    std::vector<std::vector<uint32_t>> lists(2);
    for (uint32_t i = 0; i < 32; ++i) {
      lists[0].push_back(i < 16 ? i : i + 29);
      lists[1].push_back(2 * i > 60 ? 60 : (7 * i) / 4);
    }
    return lists;
  }();
  std::vector<std::vector<TokenSlot>> slots(2);
  const BlockTables& table = executor.tables().at(slot);
  // Layer 0 keeps all that its window has not passed, if it has one.
  const bool windowed = table.geometry().windows.contains(0);
  std::vector<PageCount> spare = {PageCount(1), PageCount(1)};
  for (uint32_t l = 0; l < 2; ++l) {
    if (windowed && l == 0) {
      for (uint32_t i = 0; i < table.resident(LayerIndex(0)); ++i) slots[0].emplace_back(i);
      spare[0] = PageCount(table.pages(LayerIndex(0)) - (table.resident(LayerIndex(0)) + 15) / 16);
      continue;
    }
    for (const uint32_t index : keep[l]) slots[l].emplace_back(index);
    naive.Keep(l, keep[l]);
  }
  executor.Compact(slot, {slots, spare});
  EXPECT_EQ(table.resident(LayerIndex(1)), 32u);
  EXPECT_EQ(table.pages(LayerIndex(1)), 3u);
  if (windowed) {
    LayerPageLists more = harness.pool().Take(4);
    more[1].clear();
    executor.tables().Extend(slot, more);
  }
  EXPECT_EQ(table.free_tokens(), 16u);

  uint32_t position = 61;
  const auto feed = [&](uint32_t count) {
    for (uint32_t i = 0; i < count; ++i, ++position) {
      const uint32_t token = (position * 13) % 101;
      const auto output = harness.Run({harness.Decode(slot, token, position)});
      ExpectClose(ByToken(output.at(0)), Normalised(naive.Feed(token)));
    }
  };
  feed(16);
  EXPECT_EQ(table.free_tokens(), 0u);
  // Another block from each layer goes, the first of one and the last of the other.
  const std::optional<BlockIndex> first = windowed ? std::nullopt : std::optional(BlockIndex(0));
  executor.tables().DropBlocks(slot, {{first, BlockIndex(2)}});
  for (uint32_t l = windowed ? 1 : 0; l < 2; ++l) {
    std::vector<uint32_t> rest(48);
    std::iota(rest.begin(), rest.end(), 0);
    rest.erase(rest.begin() + (l == 0 ? 0 : 32), rest.begin() + (l == 0 ? 16 : 48));
    naive.Keep(l, rest);
  }
  EXPECT_EQ(table.resident(LayerIndex(1)), 32u);
  EXPECT_EQ(table.free_tokens(), 0u);
  executor.tables().Extend(slot, harness.pool().Take(1));
  feed(10);
}

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_MODEL_FORWARD_TEST_H_
