// Layers that attend to a window of latest tokens, by their positions.
#include "gtest/gtest.h"
#include "tests/model/forward_test.h"

namespace folio::model::testing {
namespace {

using WindowTest = ForwardTest;

// Prompt and decode rows, with windows that end within a page, a tile or at their edges.
TEST_P(WindowTest, MatchesNaive) {
  for (const uint32_t window : {1, 7, 16, 30, 33}) {
    ModelConfig config = OfFamily("gemma3");
    config.others->window = window;
    ExpectNaive(config);
  }
  ModelConfig config = OfFamily("gemma3");  // decode rows are read where they lie
  config.head_dim = 64;
  config.others->window = 21;
  ExpectNaive(config);
}

TEST_P(WindowTest, ChunksOfAPromptGiveTheSameBits) {
  for (const uint32_t window : {5, 64, 100}) {
    ModelConfig config = OfFamily("gemma3");
    config.others->window = window;
    ExecutorHarness harness(GetParam(), config, 3);
    const Tokens prompt = RandomTokens(250, 101, 3);
    const Tokens fed = RandomTokens(5, 101, 4);
    const Logprobs whole = harness.RunAlone(harness.Open(260), prompt, fed);
    for (const uint32_t chunk : {1, 17, 100, 249}) {
      EXPECT_EQ(harness.RunAlone(harness.Open(260), prompt, fed, chunk), whole)
          << "a window of " << window << " in chunks of " << chunk;
    }
  }
}

// A stride of windows is a multiple of the page, so it is longer than a tile here.
TEST_P(WindowTest, PagesMayBeLongerThanATile) {
  ModelConfig config = OfFamily("gemma3");
  config.others->window = 40;
  const Tokens prompt = RandomTokens(250, 101, 3);
  for (const uint32_t page_tokens : {24, 128}) {
    ExecutorHarness harness(GetParam(), config, 3, 256, page_tokens);
    const Logprobs whole = harness.RunAlone(harness.Open(260), prompt, {7, 8});
    EXPECT_EQ(harness.RunAlone(harness.Open(260), prompt, {7, 8}, 17), whole) << page_tokens;
  }
}

TEST_P(WindowTest, EvictionMatchesNaive) {
  for (const uint32_t window : {3, 25, 40, 60}) {
    ModelConfig config = OfFamily("gemma3");
    config.others->window = window;
    ExpectNaiveEvictions(config);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, WindowTest, ::testing::ValuesIn(OpsNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace folio::model::testing
