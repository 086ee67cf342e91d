// The forward pass: right (against a naive one in double precision), and the same bits however it
// is cut up.
#include <algorithm>

#include "gtest/gtest.h"
#include "tests/model/forward_test.h"

namespace folio::model::testing {
namespace {

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

// Norms behind, GELU, a scaled embedding, and angles of their own in every second layer.
TEST_P(ForwardTest, MatchesNaiveWithGemmasLayers) {
  ExpectNaive(OfFamily("gemma3"));
  ModelConfig config = OfFamily("gemma3");
  config.norm_eps = 0.5f;
  config.tied_embeddings = true;
  ExpectNaive(config);
}

TEST_P(ForwardTest, MatchesNaiveWithUnrotatedLayers) { ExpectNaive(OfFamily("smollm3")); }

TEST_P(ForwardTest, MatchesNaiveWithScaledQueries) {
  ModelConfig config = OfFamily("ministral3");
  config.query_scale = {0.5f, 10};
  ExpectNaive(config);
}

// A row gets its bias, and its heads their norms, wherever it is in a batch.
TEST_P(ForwardTest, ChunksOfAPromptGiveTheSameBitsInEachFamily) {
  for (const char* family : {"qwen2", "qwen3", "gemma3"}) {
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

// What is kept is attended with the position it had, and leaves a window by that position.
TEST_P(ForwardTest, EvictionMatchesNaive) { ExpectNaiveEvictions(TinyConfig()); }

INSTANTIATE_TEST_SUITE_P(Families, ForwardTest, ::testing::ValuesIn(OpsNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace folio::model::testing
