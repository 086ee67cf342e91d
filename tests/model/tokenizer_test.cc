// The reference model's tokenizer and chat template against recorded results of an independent
// program, and what every tokenizer promises. FOLIO_MODEL names the reference model's file.
#include "services/model/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "services/model/source/model_source.h"
#include "services/text/utf8.h"

namespace folio::model {
namespace {

using testing::HasSubstr;

nlohmann::json Oracle(const std::string& name) {
  std::ifstream file(std::string(FOLIO_ORACLE) + "/" + name);
  return nlohmann::json::parse(file);
}

std::vector<uint32_t> Values(const std::vector<TokenId>& ids) {
  std::vector<uint32_t> values;
  values.reserve(ids.size());
  for (const TokenId id : ids) values.push_back(id.value());
  return values;
}

std::string Join(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.TokenBytes(id).value();
  return bytes;
}

// One for all tests: opening takes a second.
struct Loaded {
  TokenizerSpec spec;
  uint32_t vocab = 0;
  std::unique_ptr<Tokenizer> tokenizer;
};

class ReferenceTokenizerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const char* path = std::getenv("FOLIO_MODEL");
    if (path == nullptr) return;
    const auto source = OpenModel(path);
    ASSERT_TRUE(source.ok()) << source.status();
    loaded_.spec = (*source)->tokenizer();
    loaded_.vocab = (*source)->config().vocab;
    auto tokenizer = Tokenizer::Create(loaded_.spec, loaded_.vocab);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    loaded_.tokenizer = *std::move(tokenizer);
  }
  static void TearDownTestSuite() { loaded_ = {}; }

  void SetUp() override {
    if (std::getenv("FOLIO_MODEL") == nullptr) {
      GTEST_SKIP() << "FOLIO_MODEL does not name the reference model: NOT TESTED";
    }
    ASSERT_NE(loaded_.tokenizer, nullptr);
  }

  static const Tokenizer& tokenizer() { return *loaded_.tokenizer; }
  static const TokenizerSpec& spec() { return loaded_.spec; }
  static uint32_t vocab() { return loaded_.vocab; }

 private:
  static inline Loaded loaded_;
};

TEST_F(ReferenceTokenizerTest, EncodesAsTheOracle) {
  const nlohmann::json cases = Oracle("tokenizer.json");
  ASSERT_GE(cases.size(), 20U);
  for (const nlohmann::json& entry : cases) {
    const auto text = entry["text"].get<std::string>();
    const auto ids = tokenizer().Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(Values(*ids), entry["ids"].get<std::vector<uint32_t>>()) << text.substr(0, 80);
    EXPECT_EQ(Join(tokenizer(), *ids), text);
  }
}

TEST_F(ReferenceTokenizerTest, EncodesTheOraclesPrompts) {
  const nlohmann::json cases = Oracle("generation.json");
  ASSERT_FALSE(cases.empty());
  for (const nlohmann::json& entry : cases) {
    const auto ids = tokenizer().Encode(entry["prompt"].get<std::string>());
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(Values(*ids), entry["prompt_ids"].get<std::vector<uint32_t>>());
  }
}

TEST_F(ReferenceTokenizerTest, RendersChatsAsTheOracle) {
  const nlohmann::json cases = Oracle("chat.json");
  ASSERT_GE(cases.size(), 2U);
  for (const nlohmann::json& entry : cases) {
    std::vector<Message> messages;
    for (const nlohmann::json& message : entry["messages"]) {
      messages.push_back({message["role"], message["content"]});
    }
    const auto text = tokenizer().RenderChat(messages, {});
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(text->text, entry["text"].get<std::string>());
    // Nothing in these messages is special, so that a chat is its text.
    EXPECT_TRUE(text->cuts.empty());
  }
}

// Messages made of pieces of special tokens: the template's are recognised, and no others.
TEST_F(ReferenceTokenizerTest, MessagesCannotForgeTurns) {
  const char* pieces[] = {"<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|",
                          "|>",         "im_end",       "system\n",      "\n",
                          " ",          "hi",           "\u00E9",        "<"};
  const auto specials = [](const std::vector<TokenId>& ids) {
    return std::count_if(ids.begin(), ids.end(),
                         [](TokenId id) { return tokenizer().IsSpecial(id); });
  };
  const auto plain = tokenizer().RenderChat({{"user", "hi"}, {"user", "hi"}}, {}).value();
  const auto honest = specials(tokenizer().EncodeChat(plain).value());
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  size_t forged = 0;
  for (int round = 0; round < 300; ++round) {
    std::string content = "x";
    const size_t size = random() % 12;
    for (size_t i = 0; i < size; ++i) content += pieces[random() % std::size(pieces)];
    const auto chat = tokenizer().RenderChat({{"user", content}, {"user", "hi"}}, {});
    ASSERT_TRUE(chat.ok()) << chat.status();
    EXPECT_THAT(chat->text, HasSubstr(content));
    const auto ids = tokenizer().EncodeChat(*chat);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(specials(*ids), honest) << content;
    EXPECT_EQ(Join(tokenizer(), *ids), chat->text);
    const auto all = tokenizer().Encode(chat->text).value();
    forged += specials(all) > honest ? 1 : 0;
    if (chat->cuts.empty()) {
      EXPECT_EQ(Values(*ids), Values(all)) << content;
    }
  }
  EXPECT_GT(forged, 100U);
}

TEST_F(ReferenceTokenizerTest, KnowsItsSpecialTokens) {
  const TokenId turn_end = tokenizer().Encode("<|im_end|>").value().at(0);
  EXPECT_TRUE(tokenizer().IsSpecial(turn_end));
  EXPECT_TRUE(tokenizer().IsEos(turn_end));
  EXPECT_EQ(tokenizer().TokenBytes(turn_end).value(), "<|im_end|>");
  EXPECT_FALSE(tokenizer().IsSpecial(tokenizer().Encode("word").value().at(0)));
  EXPECT_EQ(tokenizer().vocab_size(), 49152U);
  EXPECT_TRUE(tokenizer().has_chat_template());
}

// A character of each length and of the ranges that tokenizers treat apart.
std::string RandomCharacter(std::mt19937& random) {
  static const std::pair<char32_t, char32_t> kRanges[] = {
      {0x20, 0x7E},     {0x20, 0x20},     {0x0, 0x1F},      {0x30, 0x39},       {0x80, 0x7FF},
      {0x0300, 0x036F}, {0x2000, 0x20FF}, {0x3040, 0x9FFF}, {0x1F300, 0x1FAFF}, {0x10000, 0x10FFFF},
  };
  const auto [low, high] = kRanges[random() % std::size(kRanges)];
  const char32_t code = low + random() % (high - low + 1);
  const auto tail = [code](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0 | code >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | code >> 18), tail(12), tail(6), tail(0)};
}

// The bytes that have a token. The reference model has none for some control characters and for the
// lead bytes of channels nobody uses; its tokenizer leaves them out, here as everywhere.
std::string BytesWithToken(const Tokenizer& tokenizer) {
  std::string bytes;
  for (uint32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string token = tokenizer.TokenBytes(TokenId(id)).value();
    if (token.size() == 1) bytes += token;
  }
  return bytes;
}

TEST_F(ReferenceTokenizerTest, RandomTextComesBack) {
  const std::string known = BytesWithToken(tokenizer());
  ASSERT_GT(known.size(), 200U);
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 1000; ++round) {
    std::string text;
    const size_t size = random() % 60;
    for (size_t i = 0; i < size; ++i) {
      const std::string character = RandomCharacter(random);
      if (character.find_first_not_of(known) == std::string::npos) text += character;
    }
    ASSERT_EQ(FirstInvalidUtf8(text), std::nullopt);
    const auto ids = tokenizer().Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    ASSERT_EQ(Join(tokenizer(), *ids), text);
  }
}

TEST_F(ReferenceTokenizerTest, LongRunsComeBack) {
  for (const std::string& unit : {std::string(" "), std::string("a"), std::string("\n"),
                                  std::string("7"), std::string("<|im_end|>"), std::string("\0", 1),
                                  std::string(" a"), std::string("\xE6\x97\xA5")}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    text += 'x';
    const auto ids = tokenizer().Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_TRUE(Join(tokenizer(), *ids) == text) << "run of '" << unit << "'";
  }
}

TEST_F(ReferenceTokenizerTest, TextThatIsNoUtf8IsRefused) {
  const auto ids = tokenizer().Encode("abc\xFFz");
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ids.status().message()), HasSubstr("not UTF-8 (byte 3)"));
  const auto chat = tokenizer().RenderChat({{"user", "fine"}, {"user", "\xE6\x97"}}, {});
  EXPECT_EQ(chat.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(chat.status().message()), HasSubstr("messages[1] is not UTF-8"));
}

TEST_F(ReferenceTokenizerTest, OtherVocabularySizesAreRefusedOrPadded) {
  const auto smaller = Tokenizer::Create(spec(), vocab() - 1);
  EXPECT_EQ(smaller.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(smaller.status().message()), HasSubstr("49152 tokens"));
  EXPECT_THAT(std::string(smaller.status().message()), HasSubstr("model has 49151"));
  // Embeddings padded to a round number: ids without a token stand for nothing.
  const auto larger = Tokenizer::Create(spec(), vocab() + 1);
  ASSERT_TRUE(larger.ok()) << larger.status();
  EXPECT_EQ((*larger)->TokenBytes(TokenId(vocab())).value(), "");
  EXPECT_EQ((*larger)->TokenBytes(TokenId(vocab() + 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  TokenizerSpec far_eos = spec();
  far_eos.eos_ids.push_back(vocab());
  EXPECT_THAT(std::string(Tokenizer::Create(far_eos, vocab()).status().message()),
              HasSubstr("eos token id 49152"));
}

TEST_F(ReferenceTokenizerTest, ThreadsEncodeTheSameAtOnce) {
  const nlohmann::json cases = Oracle("tokenizer.json");
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  threads.reserve(wrong.size());
  for (int& mistakes : wrong) {
    threads.emplace_back([&cases, &mistakes] {
      for (int round = 0; round < 20; ++round) {
        for (const nlohmann::json& entry : cases) {
          const auto ids = tokenizer().Encode(entry["text"].get<std::string>());
          const bool same = ids.ok() && Values(*ids) == entry["ids"].get<std::vector<uint32_t>>();
          mistakes += same ? 0 : 1;
        }
        mistakes += tokenizer().RenderChat({{"user", "Hi"}}, {}).ok() ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, testing::Each(0));
}

}  // namespace
}  // namespace folio::model
