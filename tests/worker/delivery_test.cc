// Tokens of one sequence and the events that its client sees of them.
#include "services/worker/engine/delivery.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/testing/tiny_vocabulary.h"
#include "tests/worker/tiny_tokenizer.h"

namespace folio::worker {
namespace {

using testing::TinyTokenizer;

std::vector<TokenId> Encode(const std::string& text) { return *TinyTokenizer().Encode(text); }

class Recorder final : public ResultSink {
 public:
  void OnEvent(Event event) override { events.push_back(std::move(event)); }
  void OnEnd(absl::Status) override {}

  std::string text() const {
    std::string all;
    for (const Event& event : events) {
      if (const auto* chunk = std::get_if<TokenChunk>(&event)) all += chunk->text;
    }
    return all;
  }
  std::vector<TokenId> tokens() const {
    std::vector<TokenId> all;
    for (const Event& event : events) {
      if (const auto* chunk = std::get_if<TokenChunk>(&event)) {
        all.insert(all.end(), chunk->tokens.begin(), chunk->tokens.end());
      }
    }
    return all;
  }
  std::vector<Event> events;
};

class DeliveryTest : public ::testing::Test {
 protected:
  DeliveryTest() {
    submission_.sink = &client_;
    submission_.request.prompt = {TokenId(5), TokenId(6)};
    submission_.request.max_new_tokens = 100;
  }
  void Start() {
    delivery_.emplace(&TinyTokenizer(), &submission_);
    delivery_->Start({});
    client_.events.clear();
  }
  // One step with a token of the sequence.
  bool Take(TokenId token) {
    model::SegmentOutput output;
    output.token = token;
    output.logprob = -1;
    const bool finished = delivery_->Take(output, [] { return CacheStats{.plans = 7}; });
    EXPECT_EQ(finished, delivery_->finished());
    return finished;
  }
  const Finished& finished() const { return std::get<Finished>(client_.events.back()); }

  Recorder client_;
  Submission submission_;
  std::optional<Delivery> delivery_;
};

TEST_F(DeliveryTest, NothingIsSentBeforeSend) {
  Start();
  delivery_->AddProgress(2);
  EXPECT_FALSE(Take(TokenId(10)));
  EXPECT_TRUE(client_.events.empty());
  delivery_->Send();
  ASSERT_EQ(client_.events.size(), 2u);
  EXPECT_EQ(std::get<Progress>(client_.events[0]).total_tokens, 2u);
  EXPECT_EQ(client_.tokens(), std::vector<TokenId>{TokenId(10)});
  delivery_->Send();
  EXPECT_EQ(client_.events.size(), 2u);
}

TEST_F(DeliveryTest, ACutCharacterComesWithTheTokenThatCompletesIt) {
  Start();
  const std::vector<TokenId> tokens = Encode("a\u00e9");
  ASSERT_EQ(tokens.size(), 3u);
  for (const TokenId token : tokens) {
    Take(token);
    delivery_->Send();
  }
  ASSERT_EQ(client_.events.size(), 2u);
  const auto& last = std::get<TokenChunk>(client_.events[1]);
  EXPECT_EQ(last.text, "\u00e9");
  EXPECT_EQ(last.tokens, std::vector<TokenId>(tokens.begin() + 1, tokens.end()));
}

TEST_F(DeliveryTest, TheTextEndsBeforeAStopString) {
  submission_.request.output.stop = {"never", "xy"};
  Start();
  const std::vector<TokenId> tokens = Encode("abcxyz");
  bool finished = false;
  for (size_t i = 0; i < tokens.size() && !finished; ++i) finished = Take(tokens[i]);
  delivery_->Send();
  ASSERT_TRUE(finished);
  EXPECT_EQ(client_.text(), "abc");
  EXPECT_EQ(this->finished().reason, FinishReason::kStop);
  EXPECT_EQ(this->finished().stop, "xy");
  EXPECT_EQ(this->finished().cache.plans, 7u);
}

TEST_F(DeliveryTest, ABeginningOfAStopStringIsSentAtTheEnd) {
  submission_.request.output.stop = {"xyz"};
  submission_.request.max_new_tokens = static_cast<uint32_t>(Encode("qxy").size());
  Start();
  for (const TokenId token : Encode("qxy")) Take(token);
  delivery_->Send();
  EXPECT_EQ(client_.text(), "qxy");
  EXPECT_EQ(finished().reason, FinishReason::kLength);
  EXPECT_EQ(finished().usage.generated_tokens, submission_.request.max_new_tokens);
}

TEST_F(DeliveryTest, AnEndTokenFinishesUnlessItIsIgnored) {
  Start();
  EXPECT_TRUE(Take(TokenId(folio::testing::kTinyImEnd)));
  delivery_->Send();
  EXPECT_EQ(finished().reason, FinishReason::kEos);
  EXPECT_EQ(client_.text(), "");

  submission_.request.output.ignore_eos = true;
  Start();
  EXPECT_FALSE(Take(TokenId(folio::testing::kTinyImEnd)));
}

TEST_F(DeliveryTest, LogprobsGoWithTheirTokens) {
  submission_.request.output.logprobs = 1;
  Start();
  model::SegmentOutput output;
  output.token = Encode("a").front();
  output.logprob = -0.5F;
  output.top = {{Encode("b").front(), -0.25F}};
  delivery_->Take(output, [] { return CacheStats{}; });
  delivery_->Send();
  const auto& chunk = std::get<TokenChunk>(client_.events.front());
  ASSERT_EQ(chunk.logprobs.size(), 1u);
  EXPECT_EQ(chunk.logprobs[0].token, output.token);
  EXPECT_EQ(chunk.logprobs[0].logprob, -0.5F);
  ASSERT_EQ(chunk.logprobs[0].top.size(), 1u);
  EXPECT_EQ(chunk.logprobs[0].top[0].bytes, "b");
  EXPECT_EQ(chunk.logprobs[0].top[0].logprob, -0.25F);
}

// Tokens of the record that the client has are not sent twice, those that it lacks are sent once.
TEST_F(DeliveryTest, AReplaySendsWhatTheClientLacks) {
  const std::vector<TokenId> tokens = Encode("abcdef");
  ASSERT_GE(tokens.size(), 4u);
  submission_.request.output.logprobs = 0;
  submission_.request.resume = {SequenceId(1), {tokens.begin(), tokens.begin() + 2}};
  Start();
  EXPECT_FALSE(delivery_->Replay({tokens.begin(), tokens.end() - 1}, [] { return CacheStats{}; }));
  EXPECT_EQ(client_.tokens(), std::vector<TokenId>(tokens.begin() + 2, tokens.end() - 1));
  EXPECT_TRUE(std::isnan(std::get<TokenChunk>(client_.events.front()).logprobs.front().logprob));
  Take(tokens.back());
  delivery_->Send();
  EXPECT_EQ(client_.tokens(), std::vector<TokenId>(tokens.begin() + 2, tokens.end()));
}

}  // namespace
}  // namespace folio::worker
