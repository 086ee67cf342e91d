// Rules of an answer in the step loop: penalties, biases, least lengths and forms, on devices that
// run behind and on those that do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "services/worker/engine/engine.h"
#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {
namespace {

using ::testing::Each;
using ::testing::Not;

class EngineRules : public ::testing::TestWithParam<int> {
 protected:
  EngineRules() : harness_(Options()) { harness_.Start(); }
  static HarnessOptions Options() {
    HarnessOptions options;
    options.depth = GetParam();
    options.lag = static_cast<uint32_t>(GetParam());
    return options;
  }
  static SequenceRequest Request(LogitChanges changes, float temperature = 0) {
    SequenceRequest request = Make({.prompt = 30, .seed = 4, .temperature = temperature});
    request.sampling.changes = std::move(changes);
    request.output.ignore_eos = true;
    return request;
  }
  std::vector<uint32_t> Run(SequenceRequest request) {
    const auto got = harness_.Run(std::move(request));
    EXPECT_TRUE(got->status.ok()) << got->status;
    return got->tokens;
  }
  // What a device that does not run behind gives.
  static std::vector<uint32_t> Expected(const SequenceRequest& request) {
    EngineHarness harness;
    harness.Start();
    return harness.Run(request)->tokens;
  }

  EngineHarness harness_;
};

INSTANTIATE_TEST_SUITE_P(Depths, EngineRules, ::testing::Values(0, 1));

TEST_P(EngineRules, PenaltiesKnowTheTokenThatIsUnderWay) {
  for (const float temperature : {0.0F, 1.0F}) {
    const SequenceRequest plain = Request({}, temperature);
    const SequenceRequest penalised = Request({1.5F, 0.5F, 1.4F, {}}, temperature);
    const std::vector<uint32_t> tokens = Run(penalised);
    EXPECT_EQ(tokens, Expected(penalised));
    EXPECT_NE(tokens, Run(plain));
  }
}

// The greatest penalty forbids a token to come twice in a row, which needs the newest token.
TEST_P(EngineRules, AForbiddenTokenNeverFollowsItself) {
  const std::vector<uint32_t> tokens = Run(Request({0, 0, 100, {}}));
  for (size_t i = 1; i < tokens.size(); ++i) EXPECT_NE(tokens[i], tokens[i - 1]) << i;
}

TEST_P(EngineRules, BiasesForceAndExclude) {
  EXPECT_THAT(Run(Request({0, 0, 1, {{TokenId(7), 100}}})), Each(7U));
  const uint32_t first = Run(Request({}))[0];
  EXPECT_THAT(Run(Request({0, 0, 1, {{TokenId(first), -100}}})), Each(Not(first)));
}

TEST_P(EngineRules, AnAnswerHasItsLeastLength) {
  SequenceRequest request = Request({0, 0, 1, {{TokenId(7), 100}}});
  request.output.stop_tokens = {TokenId(7)};
  EXPECT_EQ(Run(request).size(), 1U);
  request.output.min_tokens = 9;
  const std::vector<uint32_t> tokens = Run(request);
  ASSERT_EQ(tokens.size(), 10U);
  EXPECT_EQ(tokens.back(), 7U);
}

TEST_P(EngineRules, AFormHoldsBesideFreeText) {
  const SequenceRequest free = Request({});
  const std::vector<uint32_t> expected = Run(free);
  SequenceRequest formed = Request({}, 1);
  formed.output.ignore_eos = false;
  auto grammar = TinyLimits().tokenizer->CompileGrammar(model::GrammarKind::kRegex, "(ab|ba){4}");
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  formed.grammar = *grammar;
  Recorder beside, answer;
  harness_.Push(free, &beside);
  harness_.Push(formed, &answer);
  ASSERT_TRUE(beside.Wait() && answer.Wait());
  EXPECT_EQ(beside.tokens, expected);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_THAT(answer.text(), ::testing::MatchesRegex("(ab|ba)(ab|ba)(ab|ba)(ab|ba)"));
  EXPECT_EQ(answer.finished.reason(), v1::FINISH_REASON_EOS);
  EXPECT_EQ(answer.tokens, Expected(formed));
}

TEST_P(EngineRules, ASequenceWithoutATokenLeftEndsAlone) {
  SequenceRequest request = Request({}, 0);
  request.output.ignore_eos = false;
  auto grammar = TinyLimits().tokenizer->CompileGrammar(model::GrammarKind::kRegex, "a");
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  request.grammar = *grammar;
  request.output.min_tokens = 5;
  Recorder lost, beside;
  const SequenceRequest free = Request({});
  harness_.Push(request, &lost);
  harness_.Push(free, &beside);
  ASSERT_TRUE(lost.Wait() && beside.Wait());
  EXPECT_EQ(lost.status.code(), absl::StatusCode::kFailedPrecondition) << lost.status;
  ASSERT_TRUE(beside.status.ok()) << beside.status;
  EXPECT_EQ(beside.tokens, Expected(free));
}

}  // namespace
}  // namespace folio::worker::testing
