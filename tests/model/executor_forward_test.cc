// The forward pass: right (against a naive one in double precision), and the same bits however it
// is cut up.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "tests/model/executor_harness.h"
#include "tests/model/naive_model.h"

namespace folio::model::testing {
namespace {

using Logprobs = std::vector<std::vector<float>>;

std::vector<float> Normalised(const Numbers& logits) {
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

Difference Compare(const std::vector<float>& a, const std::vector<float>& b) {
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

TEST_P(ForwardTest, MatchesNaive) { ExpectNaive(TinyConfig()); }

TEST_P(ForwardTest, MatchesNaiveWithTiedEmbeddings) {
  ModelConfig config = TinyConfig();
  config.tied_embeddings = true;
  ExpectNaive(config);
}

TEST_P(ForwardTest, MatchesNaiveWithOtherShapes) {
  ModelConfig config = TinyConfig();
  config.heads = config.kv_heads = 3;
  config.head_dim = 16;
  config.hidden = 64;
  config.ffn = 96;
  config.rope_theta = 500;
  ExpectNaive(config);
  config.heads = 8;
  config.kv_heads = 1;
  config.head_dim = 64;
  ExpectNaive(config);
}

TEST_P(ForwardTest, MatchesNaiveWithBiases) {
  ExpectNaive(OfFamily("qwen2"));
  ModelConfig config = OfFamily("qwen2");
  config.tied_embeddings = true;
  config.heads = config.kv_heads = 3;
  ExpectNaive(config);
}

TEST_P(ForwardTest, MatchesNaiveWithHeadNorms) {
  ExpectNaive(OfFamily("qwen3"));
  ModelConfig config = OfFamily("qwen3");
  config.norm_eps = 0.5f;
  config.heads = config.kv_heads = 3;
  ExpectNaive(config);
}

TEST_P(ForwardTest, MatchesNaiveWithScaledQueries) {
  ModelConfig config = OfFamily("ministral3");
  config.query_scale = {0.5f, 10};
  ExpectNaive(config);
}

// A row gets its bias, and its heads their norms, wherever it is in a batch.
TEST_P(ForwardTest, ChunksOfAPromptGiveTheSameBitsInEachFamily) {
  for (const char* family : {"qwen2", "qwen3"}) {
    ExecutorHarness harness(GetParam(), OfFamily(family), 3);
    const Tokens prompt = RandomTokens(150, 101, 3);
    const Tokens fed = RandomTokens(5, 101, 4);
    const Logprobs whole = harness.RunAlone(harness.Open(160), prompt, fed);
    for (const uint32_t chunk : {1, 17, 149}) {
      EXPECT_EQ(harness.RunAlone(harness.Open(160), prompt, fed, chunk), whole)
          << family << " in chunks of " << chunk;
    }
  }
}

TEST_P(ForwardTest, ChunksOfAPromptGiveTheSameBits) {
  ExecutorHarness harness(GetParam());
  const Tokens prompt = RandomTokens(150, 101, 3);
  const Tokens fed = RandomTokens(5, 101, 4);
  const Logprobs whole = harness.RunAlone(harness.Open(160), prompt, fed);
  for (const uint32_t chunk : {1, 7, 16, 33, 149}) {
    EXPECT_EQ(harness.RunAlone(harness.Open(160), prompt, fed, chunk), whole)
        << "chunks of " << chunk;
  }
}

TEST_P(ForwardTest, ThreadsGiveTheSameBits) {
  const Tokens prompt = RandomTokens(90, 101, 5);
  const Tokens fed = RandomTokens(5, 101, 6);
  ExecutorHarness one(GetParam(), TinyConfig(), 1);
  ExecutorHarness three(GetParam(), TinyConfig(), 3);
  EXPECT_EQ(one.RunAlone(one.Open(100), prompt, fed), three.RunAlone(three.Open(100), prompt, fed));
}

TEST_P(ForwardTest, CompanyGivesTheSameBits) {
  constexpr int kSequences = 7;
  ExecutorHarness harness(GetParam());
  std::vector<Tokens> prompts;
  std::vector<Tokens> fed;
  std::vector<Logprobs> alone;
  std::vector<SequenceSlot> slots;
  for (int i = 0; i < kSequences; ++i) {
    prompts.push_back(RandomTokens(5 + 11 * i, 101, 10 + i));
    fed.push_back(RandomTokens(6, 101, 20 + i));
    alone.push_back(harness.RunAlone(harness.Open(90), prompts[i], fed[i]));
    slots.push_back(harness.Open(90));
  }
  // Sequence i starts its prompt in step i, in chunks of 20, in a changing order.
  std::vector<uint32_t> done(kSequences, 0);
  std::vector<Logprobs> together(kSequences);
  for (int step = 0; step < kSequences + 12; ++step) {
    std::vector<StepSegment> segments;
    std::vector<int> owners;
    for (int k = 0; k <= std::min(step, kSequences - 1); ++k) {
      const int i = step % 2 == 0 ? k : std::min(step, kSequences - 1) - k;
      const auto length = static_cast<uint32_t>(prompts[i].size());
      if (done[i] < length) {
        const uint32_t end = std::min(length, done[i] + 20);
        segments.push_back(harness.Prompt(
            slots[i], Tokens(prompts[i].begin() + done[i], prompts[i].begin() + end), done[i]));
        segments.back().want_output = end == length;
        done[i] = end;
      } else if (done[i] < length + fed[i].size()) {
        segments.push_back(harness.Decode(slots[i], fed[i][done[i] - length], done[i]));
        ++done[i];
      } else {
        continue;
      }
      if (segments.back().want_output) owners.push_back(i);
    }
    const auto outputs = harness.Run(segments);
    ASSERT_EQ(outputs.size(), owners.size());
    for (size_t o = 0; o < outputs.size(); ++o) {
      EXPECT_EQ(outputs[o].slot, slots[owners[o]]);
      together[owners[o]].push_back(ByToken(outputs[o]));
    }
  }
  for (int i = 0; i < kSequences; ++i) EXPECT_EQ(together[i], alone[i]) << "sequence " << i;
}

TEST_P(ForwardTest, PromptAndDecodeRowsAreClose) {
  ExecutorHarness harness(GetParam());
  const Tokens prompt = RandomTokens(40, 101, 7);
  const Tokens rest(prompt.begin() + 10, prompt.end());
  const Logprobs decoded =
      harness.RunAlone(harness.Open(48), Tokens(prompt.begin(), prompt.begin() + 10), rest);
  const Logprobs prefilled = harness.RunAlone(harness.Open(48), prompt, {});
  ExpectClose(decoded.back(), prefilled.back());
}

TEST_P(ForwardTest, ManyOutputsInOneStep) {
  ExecutorHarness harness(GetParam());
  const Tokens prompt = RandomTokens(3, 101, 8);
  const Logprobs alone = harness.RunAlone(harness.Open(4), prompt, {});
  std::vector<StepSegment> segments;
  segments.reserve(70);
  for (int i = 0; i < 70; ++i) segments.push_back(harness.Prompt(harness.Open(4), prompt, 0));
  const auto outputs = harness.Run(segments);
  ASSERT_EQ(outputs.size(), 70u);
  for (const SegmentOutput& output : outputs) EXPECT_EQ(ByToken(output), alone[0]);
}

// What is kept is attended with the position it had.
TEST_P(ForwardTest, EvictionMatchesNaive) {
  ExecutorHarness harness(GetParam());
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
  for (size_t l = 0; l < 2; ++l) {
    for (const uint32_t index : keep[l]) slots[l].emplace_back(index);
    naive.Keep(static_cast<uint32_t>(l), keep[l]);
  }
  executor.Compact(slot, {slots, {PageCount(1), PageCount(1)}});
  EXPECT_EQ(executor.tables().at(slot).resident(LayerIndex(1)), 32u);
  EXPECT_EQ(executor.tables().at(slot).free_tokens(), 16u);

  uint32_t position = 61;
  const auto feed = [&](uint32_t count) {
    for (uint32_t i = 0; i < count; ++i, ++position) {
      const uint32_t token = (position * 13) % 101;
      const auto output = harness.Run({harness.Decode(slot, token, position)});
      ExpectClose(ByToken(output.at(0)), Normalised(naive.Feed(token)));
    }
  };
  feed(16);
  EXPECT_EQ(executor.tables().at(slot).free_tokens(), 0u);
  // Another block from each layer goes, the first of one and the last of the other.
  executor.tables().DropBlocks(slot, {{BlockIndex(0), BlockIndex(2)}});
  for (uint32_t l = 0; l < 2; ++l) {
    std::vector<uint32_t> rest(48);
    std::iota(rest.begin(), rest.end(), 0);
    rest.erase(rest.begin() + (l == 0 ? 0 : 32), rest.begin() + (l == 0 ? 16 : 48));
    naive.Keep(l, rest);
  }
  EXPECT_EQ(executor.tables().at(slot).resident(LayerIndex(0)), 32u);
  EXPECT_EQ(executor.tables().at(slot).free_tokens(), 0u);
  executor.tables().Extend(slot, harness.pool().Take(1));
  feed(10);
}

INSTANTIATE_TEST_SUITE_P(Families, ForwardTest, ::testing::ValuesIn(OpsNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace folio::model::testing
