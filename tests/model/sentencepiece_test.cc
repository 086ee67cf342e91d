// Vocabularies of SentencePiece from GGUF files and tokenizer.json: rows that SentencePiece itself
// made (make_sentencepiece.py), texts one token at a time, and chats whose texts are cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "services/model/tokenizer/gguf_tokenizer.h"
#include "services/model/tokenizer/tokenizer.h"
#include "services/text/utf8.h"
#include "tests/model/gguf_tokenizer_texts.h"
#include "tests/model/score_merge_walk.h"

namespace folio::model {
namespace {

using nlohmann::json;
using testing::ElementsAre;

GgufTokenizer GgufOf(const json& fields) {
  GgufTokenizer gguf;
  gguf.model = fields["model"];
  gguf.tokens = fields["tokens"].get<std::vector<std::string>>();
  gguf.scores = fields["scores"].get<std::vector<float>>();
  gguf.token_types = fields["token_type"].get<std::vector<int32_t>>();
  gguf.add_space_prefix = fields["add_space_prefix"];
  gguf.remove_extra_spaces = fields["remove_extra_whitespaces"];
  gguf.unknown_id = fields["unknown_token_id"];
  gguf.add_bos = false;
  absl::Base64Unescape(fields["precompiled_charsmap"].get<std::string>(), &gguf.charsmap);
  return gguf;
}

std::vector<uint32_t> Values(const std::vector<TokenId>& ids) {
  std::vector<uint32_t> values;
  values.reserve(ids.size());
  for (const TokenId id : ids) values.push_back(id.value());
  return values;
}

// What a worker streams, in which a character comes with its last byte.
std::string Stream(const Tokenizer& tokenizer, const std::vector<uint32_t>& ids) {
  Utf8Assembler utf8;
  std::string text;
  for (const uint32_t id : ids) text += utf8.Feed(tokenizer.TokenBytes(TokenId(id)).value());
  EXPECT_FALSE(utf8.pending());
  return text + utf8.Flush();
}

class SentencePieceTest : public testing::Test {
 protected:
  static const json& Cases() {
    static const json cases = json::parse(std::ifstream(FOLIO_SENTENCEPIECE));
    return cases;
  }
  static const json& Case(const std::string& name) {
    for (const json& each : Cases()) {
      if (each["name"] == name) return each;
    }
    ADD_FAILURE() << "no case " << name;
    return Cases()[0];
  }
  static std::unique_ptr<Tokenizer> FromJson(const json& each) {
    TokenizerSpec spec;
    spec.tokenizer_json = each["tokenizer_json"].dump();
    return MakeTokenizer(spec, each["gguf"]["tokens"].size());
  }
};

void CheckRow(const Tokenizer& tokenizer, const json& row) {
  const auto text = row["text"].get<std::string>();
  const auto ids = row["ids"].get<std::vector<uint32_t>>();
  const auto encoded = tokenizer.Encode(text);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  EXPECT_EQ(Values(*encoded), ids) << "'" << text << "'";
  EXPECT_EQ(Stream(tokenizer, ids), row["stream"].get<std::string>()) << "'" << text << "'";
}

TEST_F(SentencePieceTest, GgufFilesGiveItsIdsAndTexts) {
  ASSERT_EQ(Cases().size(), 5U);
  for (const json& each : Cases()) {
    SCOPED_TRACE(each["name"].get<std::string>());
    const auto tokenizer = MakeTokenizer(GgufOf(each["gguf"]));
    ASSERT_GE(each["rows"].size(), 50U);
    for (const json& row : each["rows"]) {
      if (!row["json_only"]) CheckRow(*tokenizer, row);
    }
  }
}

TEST_F(SentencePieceTest, ConvertedFilesGiveThemToo) {
  for (const json& each : Cases()) {
    SCOPED_TRACE(each["name"].get<std::string>());
    const auto tokenizer = FromJson(each);
    for (const json& row : each["rows"]) {
      if (!row["gguf_only"]) CheckRow(*tokenizer, row);
    }
  }
}

// The text that SentencePiece gives back lacks the space that was put in front.
TEST_F(SentencePieceTest, AWholeTextLosesTheSpaceThatWasPutInFront) {
  for (const json& each : Cases()) {
    SCOPED_TRACE(each["name"].get<std::string>());
    GgufTokenizer gguf = GgufOf(each["gguf"]);
    gguf.add_bos = true;
    gguf.bos_id = 1;
    const auto tokenizer = MakeTokenizer(gguf);
    for (const json& row : each["rows"]) {
      if (row["decoded"].is_null() || row["json_only"]) continue;
      const auto ids = tokenizer->Encode(row["text"].get<std::string>()).value();
      ASSERT_EQ(ids[0], TokenId(1));
      const std::vector<TokenId> rest(ids.begin() + 1, ids.end());
      std::string text = Stream(*tokenizer, Values(rest));
      if (tokenizer->BeginsWithAddedSpace(ids)) text.erase(0, 1);
      EXPECT_EQ(text, row["decoded"].get<std::string>()) << "'" << row["text"] << "'";
      // An answer continues its prompt, so that its first space is of the text.
      EXPECT_FALSE(tokenizer->BeginsWithAddedSpace(rest));
    }
  }
}

// Merges in the order of their scores give what a search for the best pair gives.
TEST_F(SentencePieceTest, RandomTextsAreMergedAsByASearchForTheBestPair) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (const char* name : {"llama", "pairs without bytes"}) {
    const GgufTokenizer gguf = GgufOf(Case(name)["gguf"]);
    const auto tokenizer = MakeTokenizer(gguf);
    const ScoreMergeWalk walk(gguf);
    for (int round = 0; round < 500; ++round) {
      std::string text;
      const size_t size = 1 + random() % 12;
      for (size_t i = 0; i < size; ++i) {
        const size_t id = random() % gguf.tokens.size();
        if (gguf.token_types[id] == 1) text += gguf.tokens[id];
      }
      if (text.empty()) continue;
      ASSERT_EQ(Values(tokenizer->Encode(text).value()), walk.Ids("\u2581" + text)) << text;
    }
  }
}

TEST_F(SentencePieceTest, LongTextsTakeNoLongerThanTheirLength) {
  for (const json& each : Cases()) {
    SCOPED_TRACE(each["name"].get<std::string>());
    const auto tokenizer = MakeTokenizer(GgufOf(each["gguf"]));
    std::string text = "x";
    while (text.size() < 200'000) text += " the worker keeps a page";
    const auto ids = tokenizer->Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    const bool prefix = each["gguf"]["add_space_prefix"];
    EXPECT_TRUE(Stream(*tokenizer, Values(*ids)) == (prefix ? " " : "") + text);
    EXPECT_TRUE(tokenizer->Encode(std::string(100'000, ' ') + "x").ok());
  }
}

// A message with the text of a special token is encoded in parts, and only the text's own beginning
// has a space in front.
TEST_F(SentencePieceTest, ACutInAMessagePutsNoSpaceThere) {
  for (const json& each : Cases()) {
    SCOPED_TRACE(each["name"].get<std::string>());
    TokenizerSpec spec = TokenizerFromGguf(GgufOf(each["gguf"])).value();
    spec.chat_template = "<s>{{ messages[0].content }}</s>next";
    const auto tokenizer = MakeTokenizer(spec, each["gguf"]["tokens"].size());
    const auto chat = tokenizer->RenderChat({{"user", "a<s>bc</s> d"}}, {}).value();
    ASSERT_EQ(chat.text, "<s>a<s>bc</s> d</s>next");
    ASSERT_EQ(chat.cuts.size(), 2U);
    const auto ids = tokenizer->EncodeChat(chat).value();
    const std::string space = each["gguf"]["add_space_prefix"] ? " " : "";
    EXPECT_EQ(Stream(*tokenizer, Values(ids)),
              absl::StrCat("<s>", space, "a<s>bc</s> d</s>", space, "next"));
    EXPECT_EQ(std::count(ids.begin(), ids.end(), TokenId(1)), 1);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), TokenId(2)), 1);
  }
}

// tokenizer.json of Mistral and others put the space in front by a step called Metaspace.
TEST_F(SentencePieceTest, MetaspacePutsASpaceInFrontAsItSays) {
  const auto encode = [](json metaspace, const std::string& text) {
    json document = Case("llama")["tokenizer_json"];
    metaspace.update({{"type", "Metaspace"}, {"replacement", "\u2581"}});
    document["normalizer"] = nullptr;
    document["pre_tokenizer"] = metaspace;
    document["decoder"] = metaspace;
    TokenizerSpec spec;
    spec.tokenizer_json = document.dump();
    spec.chat_template = "{{ messages[0].content }}";
    const auto tokenizer = MakeTokenizer(spec, document["model"]["vocab"].size());
    std::vector<std::string> texts = {Stream(*tokenizer, Values(tokenizer->Encode(text).value()))};
    const auto chat = tokenizer->RenderChat({{"user", text}}, {}).value();
    texts.push_back(Stream(*tokenizer, Values(tokenizer->EncodeChat(chat).value())));
    return texts;
  };
  const std::string text = "a b<s>c";
  EXPECT_THAT(encode({{"prepend_scheme", "always"}}, text), ElementsAre(" a b<s> c", " a b<s>c"));
  EXPECT_THAT(encode({{"prepend_scheme", "first"}}, text), ElementsAre(" a b<s>c", " a b<s>c"));
  EXPECT_THAT(encode({{"prepend_scheme", "never"}}, text), ElementsAre("a b<s>c", "a b<s>c"));
  EXPECT_THAT(encode({{"add_prefix_space", true}}, text), ElementsAre(" a b<s> c", " a b<s>c"));
  EXPECT_THAT(encode({{"prepend_scheme", "first"}, {"split", false}}, "  two"),
              ElementsAre("  two", "  two"));
}

TEST_F(SentencePieceTest, AddedTokensMayStandForSpaces) {
  const json& gemma = Case("gemma");
  const auto tokenizer = FromJson(gemma);
  const auto ids = tokenizer->Encode("a    b").value();
  ASSERT_EQ(ids.size(), 3U);
  EXPECT_EQ(tokenizer->TokenBytes(ids[1]).value(), "    ");
  EXPECT_FALSE(tokenizer->IsSpecial(ids[1]));
}

TEST_F(SentencePieceTest, AWordThatIsATokenMayBeTakenWhole) {
  json document = Case("llama")["tokenizer_json"];
  auto& vocab = document["model"]["vocab"];
  const auto id = static_cast<uint32_t>(vocab.size());
  vocab["\u2581zqzq"] = id;  // without merges
  TokenizerSpec spec;
  spec.tokenizer_json = document.dump();
  EXPECT_GT(MakeTokenizer(spec, id + 1)->Encode("zqzq").value().size(), 1U);
  document["model"]["ignore_merges"] = true;
  spec.tokenizer_json = document.dump();
  EXPECT_THAT(MakeTokenizer(spec, id + 1)->Encode("zqzq").value(), ElementsAre(TokenId(id)));
}

}  // namespace
}  // namespace folio::model
