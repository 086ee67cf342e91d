// SentencePiece's vocabularies as GGUF carries them: settings, kinds of tokens, damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "services/model/tokenizer/gguf_tokenizer.h"
#include "services/model/tokenizer/tokenizer.h"
#include "tests/model/gguf_tokenizer_texts.h"

namespace folio::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void Add(GgufTokenizer& gguf, const std::string& token, float score, int32_t type = 1) {
  gguf.tokens.push_back(token);
  gguf.scores.push_back(score);
  gguf.token_types.push_back(type);
}

constexpr uint32_t kFirstByte = 3;  // the token of byte b is kFirstByte + b

// The unknown token, bos and eos, the 256 bytes, and some pieces.
GgufTokenizer Pieces(const std::string& model) {
  GgufTokenizer gguf;
  gguf.model = model;
  gguf.pre = "default";
  Add(gguf, "<unk>", 0, 2);
  Add(gguf, "<s>", 0, 3);
  Add(gguf, "</s>", 0, 3);
  for (int byte = 0; byte < 256; ++byte) Add(gguf, absl::StrFormat("<0x%02X>", byte), 0, 6);
  float score = 0;
  for (const char* piece : {"ab", "bc", "\u2581a", "abc", "\u2581", "a", "b", "c"}) {
    Add(gguf, piece, score -= 1);
  }
  gguf.bos_id = 1;
  gguf.eos_id = 2;
  return gguf;
}

TEST(GgufSentencePieceTest, ThePairWithTheBestScoreIsJoinedFirst) {
  GgufTokenizer gguf = Pieces("llama");
  EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "abc"), ElementsAre("<s>", " ", "abc"));
  gguf.scores[kFirstByte + 256] = -9;  // "ab", now after "bc" and " a"
  EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "abc"), ElementsAre("<s>", " a", "bc"));
}

TEST(GgufSentencePieceTest, TheBestSumOfScoresIsFound) {
  GgufTokenizer gguf = Pieces("t5");
  EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "abc"), ElementsAre(" a", "bc"));
  gguf.scores[kFirstByte + 258] = -9;  // " a"
  EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "abc"), ElementsAre(" ", "abc"));
}

TEST(GgufSentencePieceTest, ACharacterWithoutAPieceIsItsBytes) {
  for (const char* model : {"llama", "t5"}) {
    GgufTokenizer gguf = Pieces(model);
    gguf.add_bos = false;
    EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "\u00E9\n"), ElementsAre(" ", "\xC3", "\xA9", "\n"));
    // The text of a byte's token is not the byte.
    for (const char* piece : {"<", "0", "x", "A", ">"}) Add(gguf, piece, -9);
    EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "<0x0A>"),
                ElementsAre(" ", "<", "0", "x", "0", "A", ">"));
  }
}

TEST(GgufSentencePieceTest, WithoutBytesItIsTheUnknownToken) {
  for (const char* model : {"llama", "t5"}) {
    GgufTokenizer gguf = Pieces(model);
    gguf.add_bos = false;
    for (int byte = 0; byte < 256; ++byte) gguf.token_types[kFirstByte + byte] = 5;
    const auto tokenizer = MakeTokenizer(gguf);
    EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "a\u00E9\u00E8b"), ElementsAre(" a", "<unk>", "b"));
    EXPECT_TRUE(tokenizer->IsSpecial(TokenId(0)));
  }
}

TEST(GgufSentencePieceTest, ASpaceInFrontAndBosAreAsTheFileSays) {
  for (const char* model : {"llama", "t5"}) {
    GgufTokenizer gguf = Pieces(model);
    gguf.add_bos = false;
    EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "c"), ElementsAre(" ", "c"));
    EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), " c"), ElementsAre(" ", " ", "c"));
    EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), ""), ElementsAre());
    EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "c</s>c"), ElementsAre(" ", "c", "</s>", " ", "c"));
    gguf.add_space_prefix = false;
    EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "c"), ElementsAre("c"));
    EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "  c "), ElementsAre(" ", " ", "c", " "));
    gguf.remove_extra_spaces = true;
    EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "  c  c "), ElementsAre("c", " ", "c"));
    gguf.add_bos.reset();
    const bool bos = std::string(model) == "llama";
    EXPECT_EQ(TextsOf(*MakeTokenizer(gguf), "c").size(), bos ? 2U : 1U);
  }
}

TEST(GgufSentencePieceTest, TokensOfUsersAreTakenWhole) {
  GgufTokenizer gguf = Pieces("llama");
  gguf.add_space_prefix = false;
  gguf.add_bos = false;
  Add(gguf, "  ", 0, 4);
  Add(gguf, "    ", 0, 4);
  Add(gguf, "<end_of_turn>", 0, 3);
  gguf.chat_template = "{{ messages }}";
  EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "a       b"), ElementsAre("a", "    ", "  ", " ", "b"));
  const uint32_t end = static_cast<uint32_t>(gguf.tokens.size()) - 1;
  EXPECT_THAT(MakeTokenizer(gguf)->eos_ids(), ElementsAre(2, end));
}

struct Damage {
  std::function<void(GgufTokenizer&)> make;
  std::string message;
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};

std::vector<Damage> AllDamage() {
  using G = GgufTokenizer&;
  return {
      {[](G g) { g.token_types.clear(); }, "token_type is missing"},
      {[](G g) { g.scores.clear(); }, "scores has 0 entries"},
      {[](G g) { g.scores.pop_back(); }, "scores has 266 entries, tokenizer.ggml.tokens has 267"},
      {[](G g) { g.scores[7] = std::numeric_limits<float>::quiet_NaN(); }, "scores[7] is not"},
      {[](G g) { g.scores[8] = std::numeric_limits<float>::infinity(); }, "scores[8] is not"},
      {[](G g) { g.tokens[262] = std::string(1025, 'a'); }, "tokens[262] has 1025 bytes"},
      {[](G g) { g.tokens[262] = "\xFF"; }, "tokens[262] is not UTF-8"},
      {[](G g) { g.tokens[262] = "a"; }, "is 'a', as is ["},
      {[](G g) { g.tokens[13] = "<0x0a>"; }, "tokens lacks the byte token <0x0A>"},
      {[](G g) { g.token_types[13] = 1; }, "tokens lacks the byte token <0x0A>"},
      {[](G g) { Add(g, "<0x100>", 0, 6); }, "token_type has 257 byte tokens"},
      {[](G g) { g.unknown_id = 267; }, "unknown_token_id is 267"},
      {[](G g) { g.bos_id.reset(), g.add_bos = true; }, "bos_token_id is missing"},
      {[](G g) { g.charsmap = "abc"; }, "precompiled_charsmap is not"},
      {[](G g) { g.charsmap = std::string("\x08\0\0\0abcd", 8); }, "precompiled_charsmap is not"},
      {[](G g) { g.charsmap = std::string("\0\0\0\0abcd", 8); }, "precompiled_charsmap is not"},
      {[](G g) { g.add_eos = true; }, "add_eos_token: true", absl::StatusCode::kUnimplemented},
      {[](G g) {
         for (int32_t& type : g.token_types) type = type == 6 || type == 2 ? 5 : type;
       },
       "tokenizer.ggml."},
  };
}

TEST(GgufSentencePieceTest, DamageIsNamed) {
  for (const char* model : {"llama", "t5"}) {
    for (const Damage& damage : AllDamage()) {
      GgufTokenizer gguf = Pieces(model);
      damage.make(gguf);
      const absl::StatusOr<TokenizerSpec> spec = TokenizerFromGguf(gguf);
      ASSERT_FALSE(spec.ok()) << damage.message;
      EXPECT_EQ(spec.status().code(), damage.code) << spec.status();
      EXPECT_THAT(std::string(spec.status().message()), HasSubstr(damage.message));
    }
  }
}

// Each cut of a run of one letter is a merge.
TEST(GgufSentencePieceTest, FarMoreMergesThanAModelHasAreRefused) {
  GgufTokenizer gguf = Pieces("llama");
  const auto add_runs = [&gguf](size_t shortest, size_t longest) {
    for (size_t i = shortest; i <= longest; ++i) Add(gguf, std::string(i, 'k'), -1);
  };
  add_runs(1, 100);
  EXPECT_TRUE(TokenizerFromGguf(gguf).ok());
  add_runs(101, 1024);
  EXPECT_THAT(
      std::string(TokenizerFromGguf(gguf).status().message()),
      HasSubstr("tokenizer.ggml.tokens: merges of 1032 pieces have more than 33554432 bytes"));
}

}  // namespace
}  // namespace folio::model
