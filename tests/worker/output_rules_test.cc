// The edits of an answer's logits, token by token, without a model.
#include "services/worker/engine/output_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "services/base/thread_time.h"
#include "tests/testing/tiny_vocabulary.h"
#include "tests/worker/tiny_tokenizer.h"

namespace folio::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using testing::TinyTokenizer;

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr uint32_t kEos = folio::testing::kTinyImEnd;

// Token, and then how often the answer has it, whether the text has it, and its bias.
using Edits = std::map<uint32_t, std::tuple<uint32_t, bool, float>>;

Edits ByToken(const model::LogitEdits& edits) {
  Edits by_token;
  for (const model::LogitEdit& one : edits.tokens) {
    const bool is_new =
        by_token.try_emplace(one.token.value(), one.in_answer, one.in_text, one.bias).second;
    EXPECT_TRUE(is_new) << one.token.value();
  }
  return by_token;
}

class OutputRulesTest : public ::testing::Test {
 protected:
  OutputRulesTest() {
    request_.prompt = {TokenId(5), TokenId(6), TokenId(5)};
    request_.max_new_tokens = 100;
  }
  OutputRules Begin() {
    auto rules = OutputRules::Begin(&request_, &TinyTokenizer());
    EXPECT_TRUE(rules.ok()) << rules.status();
    return *std::move(rules);
  }

  SequenceRequest request_;
};

TEST_F(OutputRulesTest, AnOrdinaryRequestHasNoEdits) {
  OutputRules rules = Begin();
  for (uint32_t output = 0; output < 5; ++output) {
    EXPECT_FALSE(rules.Edits(output).any());
    EXPECT_FALSE(rules.Edits(output + 1).any());
    ASSERT_TRUE(rules.Take({TokenId(9)}).ok());
  }
}

TEST_F(OutputRulesTest, PenaltiesCountTheAnswerAndARepetitionPenaltyThePromptToo) {
  request_.sampling.changes.presence_penalty = 0.5F;
  OutputRules answer = Begin();
  request_.sampling.changes.repetition_penalty = 1.5F;
  OutputRules text = Begin();
  EXPECT_THAT(ByToken(answer.Edits(0)), ElementsAre());
  for (OutputRules* rules : {&answer, &text}) {
    for (const uint32_t token : {9, 6, 9}) ASSERT_TRUE(rules->Take({TokenId(token)}).ok());
    EXPECT_EQ(rules->taken(), 3U);
  }
  EXPECT_THAT(ByToken(answer.Edits(3)),
              ElementsAre(Pair(6, std::tuple(1, true, 0.0F)), Pair(9, std::tuple(2, true, 0.0F))));
  EXPECT_THAT(ByToken(text.Edits(3)),
              ElementsAre(Pair(5, std::tuple(0, true, 0.0F)), Pair(6, std::tuple(1, true, 0.0F)),
                          Pair(9, std::tuple(2, true, 0.0F))));
  EXPECT_EQ(text.Edits(3).repetition_penalty, 1.5F);
  EXPECT_EQ(text.Edits(3).presence_penalty, 0.5F);
  EXPECT_FALSE(text.Edits(3).counts_last);
  EXPECT_TRUE(text.Edits(4).counts_last);  // a device that runs behind has one token more
}

TEST_F(OutputRulesTest, ABiasOfMinusAHundredExcludesAToken) {
  request_.sampling.changes.biases = {{TokenId(3), -100}, {TokenId(4), -99}, {TokenId(5), 7}};
  const OutputRules rules = Begin();
  EXPECT_THAT(ByToken(rules.Edits(0)), ElementsAre(Pair(3, std::tuple(0, false, kNever)),
                                                   Pair(4, std::tuple(0, false, -99.0F)),
                                                   Pair(5, std::tuple(0, false, 7.0F))));
  EXPECT_FALSE(rules.Edits(1).counts_last);
}

TEST_F(OutputRulesTest, TokensThatEndTheAnswerAreKeptBack) {
  request_.output.min_tokens = 2;
  request_.output.stop_tokens = {TokenId(7), TokenId(kEos)};
  request_.sampling.changes.biases = {{TokenId(7), 1}};
  OutputRules rules = Begin();
  const auto never = std::tuple(0, false, kNever);
  Edits early = {{7, never}, {kEos, never}};
  EXPECT_EQ(ByToken(rules.Edits(0)), early);
  EXPECT_EQ(ByToken(rules.Edits(1)), early);
  ASSERT_TRUE(rules.Take({TokenId(9)}).ok());
  EXPECT_EQ(ByToken(rules.Edits(1)), early);
  const Edits later = {{7, std::tuple(0, false, 1.0F)}};
  EXPECT_EQ(ByToken(rules.Edits(2)), later);  // before the second token is known
  ASSERT_TRUE(rules.Take({TokenId(9)}).ok());
  EXPECT_EQ(ByToken(rules.Edits(2)), later);
  request_.output.ignore_eos = true;
  early.erase(kEos);
  request_.output.stop_tokens = {TokenId(7)};
  EXPECT_EQ(ByToken(Begin().Edits(0)), early);
}

TEST_F(OutputRulesTest, AFormWaitsForEachToken) {
  auto grammar = TinyTokenizer().CompileGrammar(model::GrammarKind::kRegex, "ab?");
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  request_.grammar = *std::move(grammar);
  const TokenId a = TinyTokenizer().Encode("a")->at(0);
  const TokenId b = TinyTokenizer().Encode("b")->at(0);
  OutputRules rules = Begin();
  const auto may = [&](TokenId token) {
    const auto allowed = rules.Edits(rules.taken()).allowed;
    return (allowed[token.value() / 32] >> (token.value() % 32) & 1) != 0;
  };
  EXPECT_FALSE(rules.MustWait(0));
  EXPECT_TRUE(rules.MustWait(1));
  EXPECT_TRUE(may(a));
  EXPECT_FALSE(may(b));
  EXPECT_FALSE(may(TokenId(kEos)));
  ASSERT_TRUE(rules.Take({a}).ok());
  EXPECT_FALSE(rules.MustWait(1));
  EXPECT_FALSE(may(a));
  EXPECT_TRUE(may(b));
  EXPECT_TRUE(may(TokenId(kEos)));
  const absl::Status refused = rules.Take({a});
  EXPECT_EQ(refused.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("token 1 of the answer"));
}

// Allows every token, and takes `each` of the processor's time for a mask.
class SlowForm final : public model::Grammar {
 public:
  explicit SlowForm(absl::Duration each) : each_(each) {}
  absl::StatusOr<std::unique_ptr<model::GrammarState>> Start() const override {
    return std::make_unique<State>(each_);
  }

 private:
  class State final : public model::GrammarState {
   public:
    explicit State(absl::Duration each) : each_(each) {}
    absl::Status Mask(absl::Span<uint32_t> mask) override {
      const absl::Duration end = ThreadTime() + each_;
      while (ThreadTime() < end) {
      }
      std::fill(mask.begin(), mask.end(), 0xffffffffU);
      return absl::OkStatus();
    }
    absl::Status Accept(TokenId) override { return absl::OkStatus(); }
    bool stopped() const override { return false; }

   private:
    const absl::Duration each_;
  };
  const absl::Duration each_;
};

TEST_F(OutputRulesTest, AFormThatTakesTooLongEndsItsAnswer) {
  const auto tokens_until_the_end = [&](absl::Duration each) {
    request_.grammar = std::make_shared<SlowForm>(each);
    OutputRules rules = Begin();
    for (uint32_t tokens = 1; tokens <= 40; ++tokens) {
      const absl::Status taken = rules.Take({TokenId(9)});
      if (taken.ok()) continue;
      EXPECT_EQ(taken.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(std::string(taken.message()), HasSubstr("less ambiguous"));
      return tokens;
    }
    return 41U;
  };
  EXPECT_EQ(tokens_until_the_end(absl::Milliseconds(1)), 41U);
  EXPECT_EQ(tokens_until_the_end(absl::Milliseconds(60)), 3U);  // 240 ms for 3 tokens
}

TEST_F(OutputRulesTest, AnAnswerThatIsTakenOverAsksOnlyForWhatFollowsIt) {
  request_.grammar = std::make_shared<SlowForm>(absl::Milliseconds(60));
  OutputRules rules = Begin();
  EXPECT_TRUE(rules.Take(std::vector<TokenId>(40, TokenId(9))).ok());  // one mask, not 40
  EXPECT_EQ(rules.taken(), 40U);
}

}  // namespace
}  // namespace folio::worker
