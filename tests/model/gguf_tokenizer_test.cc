// Vocabularies as GGUF carries them, small ones made here: pre-tokenizers, special tokens, damage.
#include "services/model/tokenizer/gguf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/model/tokenizer/tokenizer.h"
#include "tests/model/gguf_tokenizer_texts.h"

namespace folio::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// UTF-8 of a code point under U+0800.
std::string Letter(uint32_t code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// GPT-2's letter for a byte: itself where it is printable, else the next one from U+0100 on.
std::string LetterOf(int byte) {
  const auto printable = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  if (printable(byte)) return Letter(static_cast<uint32_t>(byte));
  uint32_t code = 0x100;
  for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  return Letter(code);
}

constexpr uint32_t kFirstByte = 3;  // the token of byte b is kFirstByte + b

// Three control tokens, the 256 bytes, then the results of the merges.
GgufTokenizer Bytes(const std::string& pre, const std::vector<std::string>& merges = {}) {
  GgufTokenizer gguf;
  gguf.model = "gpt2";
  gguf.pre = pre;
  gguf.tokens = {"<|bos|>", "<|eos|>", "<|im_end|>"};
  gguf.token_types = {3, 3, 3};
  for (int byte = 0; byte < 256; ++byte) gguf.tokens.push_back(LetterOf(byte));
  for (const std::string& merge : merges) {
    std::string joined = merge;
    gguf.tokens.push_back(joined.erase(joined.find(' '), 1));
  }
  gguf.token_types.resize(gguf.tokens.size(), 1);
  gguf.merges = merges;
  gguf.bos_id = 0;
  gguf.eos_id = 1;
  return gguf;
}

TEST(GgufTokenizerTest, EveryByteHasItsToken) {
  const auto tokenizer = MakeTokenizer(Bytes("gpt-2"));
  for (uint32_t byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(tokenizer->TokenBytes(TokenId(kFirstByte + byte)).value(),
              std::string(1, static_cast<char>(byte)));
  }
  EXPECT_THAT(tokenizer->Encode("\u00E9\n").value(),
              ElementsAre(TokenId(kFirstByte + 0xC3), TokenId(kFirstByte + 0xA9),
                          TokenId(kFirstByte + 0x0A)));
}

// "1234" is a word of its own for GPT-2, is cut by smollm and qwen2; others take three digits.
TEST(GgufTokenizerTest, PreTokenizersCutDigitsEachInItsWay) {
  const std::vector<std::string> merges = {"1 2", "12 3", "123 4"};
  EXPECT_THAT(TextsOf(*MakeTokenizer(Bytes("gpt-2", merges)), "1234"), ElementsAre("1234"));
  EXPECT_THAT(TextsOf(*MakeTokenizer(Bytes("default", merges)), "1234"), ElementsAre("123", "4"));
  EXPECT_THAT(TextsOf(*MakeTokenizer(Bytes("smollm", merges)), "1234"),
              ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(TextsOf(*MakeTokenizer(Bytes("qwen2", merges)), "1234"),
              ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(TextsOf(*MakeTokenizer(Bytes("llama-bpe", merges)), "1234"),
              ElementsAre("<|bos|>", "123", "4"));
}

TEST(GgufTokenizerTest, LlamaTakesAWordThatIsATokenWithoutItsMerges) {
  GgufTokenizer gguf = Bytes("llama-bpe");
  gguf.tokens.push_back("cat");
  gguf.token_types.push_back(1);
  gguf.add_bos = false;
  EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "cat"), ElementsAre("cat"));
  gguf.pre = "qwen2";
  EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "cat"), ElementsAre("c", "a", "t"));
}

TEST(GgufTokenizerTest, PreTokenizersCutWordsAndBlanks) {
  const std::vector<std::string> merges = {"\u0120 a", "' S", "( a", "\u010A \u010A"};
  const auto llama = MakeTokenizer(Bytes("llama-bpe", merges));
  EXPECT_THAT(TextsOf(*llama, "(a"), ElementsAre("<|bos|>", "(a"));
  EXPECT_THAT(TextsOf(*llama, "x'S  a\n\n"), ElementsAre("<|bos|>", "x", "'S", " ", " a", "\n\n"));
  const auto gpt2 = MakeTokenizer(Bytes("gpt-2", merges));
  EXPECT_THAT(TextsOf(*gpt2, "(a"), ElementsAre("(", "a"));
  EXPECT_THAT(TextsOf(*gpt2, "x'S  a\n\n"), ElementsAre("x", "'", "S", " ", " a", "\n\n"));
}

// The words of a text whose bytes all differ. Each part of the text is a token, and
// merges from a word's first byte on make it whole.
std::string Words(const std::string& pre, const std::string& text) {
  GgufTokenizer gguf = Bytes(pre);
  gguf.add_bos = false;
  for (size_t begin = 0; begin < text.size(); ++begin) {
    std::string part = LetterOf(static_cast<uint8_t>(text[begin]));
    for (size_t end = begin + 1; end < text.size(); ++end) {
      const std::string letter = LetterOf(static_cast<uint8_t>(text[end]));
      gguf.merges.push_back(absl::StrCat(part, " ", letter));
      gguf.tokens.push_back(part += letter);
      gguf.token_types.push_back(1);
    }
  }
  return absl::StrJoin(TextsOf(*MakeTokenizer(gguf), text), "|");
}

// The words are those that Python's package `regex` finds by the families' published patterns.
TEST(GgufTokenizerTest, EachPreTokenizerHasItsWords) {
  const std::vector<std::string> texts = {"aBc'sD 1234:x+=/\r\n\t\u00E9\u4E2D", "HiYo,\n\t wk?!/",
                                          "x'REy;\u00A0z\u2003\u00FC", "\u0300n\u3042K.5~\n"};
  struct Row {
    std::vector<std::string> names, words;
  };
  const std::vector<Row> rows = {
      {{"default"},
       {"aBc|'|sD| |123|4|:|x|+=/|\r\n|\t|\u00E9\u4E2D", "HiYo|,|\n\t| wk|?!/",
        "x|'|REy|;|\u00A0|z|\u2003|\u00FC", "\u0300|n\u3042K|.|5|~|\n"}},
      {{"gpt-2", "phi-2"},
       {"aBc|'s|D| 1234|:|x|+=/|\r\n|\t|\u00E9\u4E2D", "HiYo|,|\n\t| wk|?!/",
        "x|'|REy|;|\u00A0|z|\u2003|\u00FC", "\u0300|n\u3042K|.|5|~|\n"}},
      {{"smollm", "refact", "starcoder"},
       {"aBc|'s|D| |1|2|3|4|:|x|+=/|\r\n|\t|\u00E9\u4E2D", "HiYo|,|\n\t| wk|?!/",
        "x|'|REy|;|\u00A0|z|\u2003|\u00FC", "\u0300|n\u3042K|.|5|~|\n"}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "dbrx", "smaug-bpe"},
       {"aBc|'s|D| |123|4|:x|+=/\r\n|\t\u00E9\u4E2D", "HiYo|,\n|\t| wk|?!/",
        "x|'RE|y|;|\u00A0z|\u2003\u00FC", "\u0300n\u3042K|.|5|~\n"}},
      {{"qwen2", "deepseek-r1-qwen"},
       {"aBc|'s|D| |1|2|3|4|:x|+=/\r\n|\t\u00E9\u4E2D", "HiYo|,\n|\t| wk|?!/",
        "x|'RE|y|;|\u00A0z|\u2003\u00FC", "\u0300n\u3042K|.|5|~\n"}},
      {{"tekken"},
       {"a|Bc|'s|D| |1|2|3|4|:x|+=/\r\n|\t\u00E9\u4E2D", "Hi|Yo|,\n|\t| wk|?!/",
        "x|'REy|;|\u00A0z|\u2003\u00FC", "\u0300n\u3042|K|.|5|~\n"}},
      {{"gpt-4o"},
       {"a|Bc's|D| |123|4|:x|+=/\r\n|\t\u00E9\u4E2D", "Hi|Yo|,\n|\t| wk|?!/",
        "x'RE|y|;|\u00A0z|\u2003\u00FC", "\u0300n\u3042|K|.|5|~\n"}},
  };
  for (const Row& row : rows) {
    for (const std::string& name : row.names) {
      for (size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ(Words(name, texts[i]), row.words[i]) << name;
      }
    }
  }
}

TEST(GgufTokenizerTest, Qwen2ComposesCharacters) {
  EXPECT_THAT(TextsOf(*MakeTokenizer(Bytes("qwen2")), "e\u0301"), ElementsAre("\xC3", "\xA9"));
  EXPECT_THAT(TextsOf(*MakeTokenizer(Bytes("smollm")), "e\u0301"),
              ElementsAre("e", "\xCC", "\x81"));
}

TEST(GgufTokenizerTest, BosComesInFrontOnceOnly) {
  GgufTokenizer gguf = Bytes("gpt-2");
  EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "a"), ElementsAre("a"));
  EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), ""), ElementsAre());
  gguf.add_bos = true;
  EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "a"), ElementsAre("<|bos|>", "a"));
  EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), "<|bos|>a"), ElementsAre("<|bos|>", "a"));
  EXPECT_THAT(TextsOf(*MakeTokenizer(gguf), ""), ElementsAre("<|bos|>"));
}

TEST(GgufTokenizerTest, ControlTokensAreSpecialUserDefinedOnlyTakenWhole) {
  GgufTokenizer gguf = Bytes("gpt-2");
  const TokenId user(static_cast<uint32_t>(gguf.tokens.size()));
  gguf.tokens.push_back("two words");
  gguf.token_types.push_back(4);
  const auto tokenizer = MakeTokenizer(gguf);
  EXPECT_THAT(TextsOf(*tokenizer, "a<|eos|>two wordsb"),
              ElementsAre("a", "<|eos|>", "two words", "b"));
  EXPECT_TRUE(tokenizer->IsSpecial(TokenId(1)));
  EXPECT_FALSE(tokenizer->IsSpecial(user));
  EXPECT_FALSE(tokenizer->IsSpecial(TokenId(kFirstByte)));
  EXPECT_FALSE(tokenizer->IsSpecial(TokenId(1U << 30)));
}

TEST(GgufTokenizerTest, EndOfGenerationIsWhatTheFileNamesAndTheEndOfATurn) {
  GgufTokenizer gguf = Bytes("gpt-2");
  EXPECT_THAT(MakeTokenizer(gguf)->eos_ids(), ElementsAre(1));
  gguf.eot_id = 0;
  gguf.chat_template = "{{ messages }}";
  const auto tokenizer = MakeTokenizer(gguf);
  EXPECT_THAT(tokenizer->eos_ids(), ElementsAre(1, 0, 2));
  EXPECT_TRUE(tokenizer->IsEos(TokenId(2)));
  EXPECT_FALSE(tokenizer->IsEos(TokenId(kFirstByte)));
}

struct Damage {
  std::function<void(GgufTokenizer&)> make;
  absl::StatusCode code;
  std::string message;
};

TEST(GgufTokenizerTest, DamageIsNamed) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  const std::vector<Damage> cases = {
      {[](GgufTokenizer& g) { g.model = "bert"; }, unimplemented, "known are gpt2, llama, t5"},
      {[](GgufTokenizer& g) { g.pre = "deepseek-v3"; }, unimplemented, "'deepseek-v3'"},
      {[](GgufTokenizer& g) { g.pre = ""; }, unimplemented, "known are default, gpt-2, phi-2"},
      {[](GgufTokenizer& g) { g.tokens.clear(); }, invalid, "tokens is missing"},
      {[](GgufTokenizer& g) { g.token_types.pop_back(); }, invalid, "token_type has 259"},
      {[](GgufTokenizer& g) { g.tokens[7] = "\xFF"; }, invalid, "tokens[7] is not UTF-8"},
      {[](GgufTokenizer& g) { g.tokens[9] = g.tokens[8]; }, invalid, "tokens[9]"},
      {[](GgufTokenizer& g) { g.merges.push_back("ab"); }, invalid, "merges[1] is not two"},
      {[](GgufTokenizer& g) { g.merges.push_back(""); }, invalid, "merges[1] is not two"},
      {[](GgufTokenizer& g) { g.merges.push_back("a "); }, invalid, "merges[1] is not two"},
      {[](GgufTokenizer& g) { g.merges[0] = "x y"; }, invalid, "merges[0] needs a token"},
      {[](GgufTokenizer& g) { g.merges[0] = "\xFF y"; }, invalid, "merges[0] needs a token"},
      {[](GgufTokenizer& g) { g.eos_id = 260; }, invalid, "eos_token_id is 260"},
      {[](GgufTokenizer& g) { g.bos_id = 1U << 31; }, invalid, "bos_token_id is 2147483648"},
      {[](GgufTokenizer& g) { g.eot_id = 261; }, invalid, "eot_token_id is 261"},
      {[](GgufTokenizer& g) { g.add_bos = true, g.bos_id.reset(); }, invalid, "add_bos_token"},
      {[](GgufTokenizer& g) { g.chat_template = "\xC3"; }, invalid, "chat_template is not UTF-8"},
  };
  for (const Damage& damage : cases) {
    GgufTokenizer gguf = Bytes("gpt-2", {"a b"});
    damage.make(gguf);
    const absl::StatusOr<TokenizerSpec> spec = TokenizerFromGguf(gguf);
    ASSERT_FALSE(spec.ok()) << damage.message;
    EXPECT_EQ(spec.status().code(), damage.code) << spec.status();
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(damage.message));
  }
}

}  // namespace
}  // namespace folio::model
