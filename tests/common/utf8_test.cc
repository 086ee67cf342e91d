#include "services/text/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace folio {
namespace {

std::string Assemble(absl::string_view bytes) {
  Utf8Assembler assembler;
  std::string text = assembler.Feed(bytes);
  return text + assembler.Flush();
}

TEST(Utf8AssemblerTest, HoldsAnUnfinishedCharacterAndGivesItWhole) {
  Utf8Assembler assembler;
  EXPECT_EQ(assembler.Feed("a\xF0\x9F"), "a");
  EXPECT_TRUE(assembler.pending());
  EXPECT_EQ(assembler.Feed("\x9A"), "");
  EXPECT_EQ(assembler.Feed("\x80z"), "\xF0\x9F\x9A\x80z");
  EXPECT_FALSE(assembler.pending());
  EXPECT_EQ(assembler.Flush(), "");
}

TEST(Utf8AssemblerTest, FlushReplacesWhatIsUnfinished) {
  Utf8Assembler assembler;
  EXPECT_EQ(assembler.Feed("\xE6\x97"), "");
  EXPECT_EQ(assembler.Flush(), "\uFFFD");
  EXPECT_EQ(assembler.Feed("ok"), "ok");
}

// Replacement characters as in the table of Unicode 15, section 3.9.
TEST(Utf8AssemblerTest, ReplacesEachMaximalStartOnce) {
  EXPECT_EQ(Assemble("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(Assemble("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(Assemble("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41\uFFFD\uFFFD\x42");
  EXPECT_EQ(Assemble("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\x41");
}

TEST(Utf8AssemblerTest, ResultDoesNotDependOnTheCuts) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  // Bytes on both sides of every boundary of the well-formed ranges.
  const std::string alphabet =
      "Az\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5"
      "\xFF";
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    const size_t size = random() % 40;
    for (size_t i = 0; i < size; ++i) bytes += alphabet[random() % alphabet.size()];
    Utf8Assembler assembler;
    std::string text;
    for (size_t at = 0; at < bytes.size();) {
      const size_t cut = random() % 4;
      const std::string given = assembler.Feed(absl::string_view(bytes).substr(at, cut));
      EXPECT_EQ(FirstInvalidUtf8(given), std::nullopt);
      text += given;
      at += cut;
    }
    text += assembler.Flush();
    EXPECT_EQ(text, Assemble(bytes));
    EXPECT_EQ(FirstInvalidUtf8(bytes) == std::nullopt, text == bytes);
  }
}

TEST(Utf8AssemblerTest, EveryCodePointPassesUnchangedByteByByte) {
  Utf8Assembler assembler;
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string bytes;
    const auto tail = [&](int shift) { bytes += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
    if (code < 0x80) {
      bytes += static_cast<char>(code);
    } else if (code < 0x800) {
      bytes += static_cast<char>(0xC0 | code >> 6);
      tail(0);
    } else if (code < 0x10000) {
      bytes += static_cast<char>(0xE0 | code >> 12);
      tail(6), tail(0);
    } else {
      bytes += static_cast<char>(0xF0 | code >> 18);
      tail(12), tail(6), tail(0);
    }
    std::string text;
    for (const char& byte : bytes) {
      ASSERT_EQ(text, "");
      text += assembler.Feed(absl::string_view(&byte, 1));
    }
    ASSERT_EQ(text, bytes) << "U+" << std::hex << code;
  }
}

TEST(FirstInvalidUtf8Test, NamesTheOffset) {
  EXPECT_EQ(FirstInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FirstInvalidUtf8("na\u00EFve \U0001F642"), std::nullopt);
  EXPECT_EQ(FirstInvalidUtf8("abc\xFF"), 3U);
  EXPECT_EQ(FirstInvalidUtf8("ab\xE6\x97"), 2U);
  EXPECT_EQ(FirstInvalidUtf8("\xED\xA0\x80"), 0U);
}

}  // namespace
}  // namespace folio
