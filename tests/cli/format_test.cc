#include "services/cli/format.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "services/cli/live_lines.h"
#include "services/cli/table.h"
#include "services/client/inputs.h"

namespace folio::cli {
namespace {

class Output : public ::testing::Test {
 protected:
  std::istringstream in_;
  std::ostringstream out_;
  std::ostringstream err_;
  Interrupts interrupts_{[] {}};
  Terminal terminal_{in_, out_, err_, interrupts_};
};

TEST(Format, Numbers) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(134515008), "134,515,008");
  EXPECT_EQ(FormatCount(std::numeric_limits<uint64_t>::max()), "18,446,744,073,709,551,615");
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(12288), "12.0 KiB");
  EXPECT_EQ(FormatBytes((1ULL << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(3ULL << 29), "1.5 GiB");
  EXPECT_EQ(FormatSeconds(0), "0 s");
  EXPECT_EQ(FormatSeconds(0.00025), "250 us");
  EXPECT_EQ(FormatSeconds(0.0123), "12.3 ms");
  EXPECT_EQ(FormatSeconds(0.99999), "1.00 s");
  EXPECT_EQ(FormatSeconds(4.56), "4.56 s");
  EXPECT_EQ(FormatSeconds(59.999), "1 m 0 s");
  EXPECT_EQ(FormatSeconds(125), "2 m 5 s");
  EXPECT_EQ(FormatSeconds(7300), "2 h 1 m");
  EXPECT_EQ(FormatSeconds(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(FormatRate(59.06), "59.1/s");
  EXPECT_EQ(FormatRate(0), "-");
  EXPECT_EQ(FormatRate(std::numeric_limits<double>::infinity()), "-");
}

TEST(Format, PiecesShowEveryByte) {
  EXPECT_EQ(QuotePiece(" caf\xC3\xA9"), "\" caf\xC3\xA9\"");
  EXPECT_EQ(QuotePiece("a\nb\t\"\\"), R"("a\nb\t\"\\")");
  EXPECT_EQ(QuotePiece("\xE6\x97"), R"("\xe6\x97")");
  EXPECT_EQ(QuotePiece("\xC0\x80"), R"("\xc0\x80")");
  EXPECT_EQ(QuotePiece("\033[2J"), R"("\x1b[2J")");
  EXPECT_EQ(QuotePiece("\xC2\x9B"), R"("\xc2\x9b")");
  EXPECT_EQ(QuotePiece("\xF0\x9F\x98\x80"), "\"\xF0\x9F\x98\x80\"");
  EXPECT_EQ(QuotePiece(""), "\"\"");
}

TEST(Format, CacheOptions) {
  EXPECT_EQ(DescribeCache(client::FullCache()), "full");
  auto cache = client::PagedEviction(256);
  cache.set_sink_tokens(16);
  cache.set_recent_tokens(32);
  cache.set_eviction_mode(folio::v1::EVICTION_MODE_SYNCHRONOUS);
  EXPECT_EQ(DescribeCache(cache), "paged_eviction, budget 256, sink 16, recent 32, synchronous");
  cache.set_layers(folio::v1::LAYERS_SHARED);
  cache.set_prompt_share(0.5F);
  cache.set_protect_ends(0.25F);
  cache.set_segments(8);
  EXPECT_EQ(DescribeCache(cache),
            "paged_eviction, budget 256, sink 16, recent 32, shared by all layers, prompt's share "
            "0.5, ends of the "
            "prompt 0.25, 8 segments, synchronous");
  EXPECT_EQ(DescribeCache(client::StreamingLlm(64)), "streaming_llm, budget 64, pipelined");
}

TEST_F(Output, TablesAlign) {
  Table table({{"name"}, {"pages", Table::Align::kRight}, {"note"}});
  table.Row({"a", "1", "x"});
  table.Row({"\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", "1,000", ""});
  EXPECT_EQ(table.Render(terminal_),
            "name   pages  note\n"
            "a          1  x\n"
            "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9  1,000\n");
  terminal_.color = true;
  EXPECT_EQ(table.Render(terminal_).substr(0, 28), "\033[1mname   pages  note\033[0m\na");
}

TEST_F(Output, FactsHaveNoHeader) {
  Table table = Table::Facts();
  table.Row({"model", "tiny"});
  table.Row({"threads", "2"});
  EXPECT_EQ(table.Render(terminal_), "model    tiny\nthreads  2\n");
}

TEST(Format, TruncateCountsCharacters) {
  EXPECT_EQ(Truncate("caf\xC3\xA9s", 4), "caf\xC3\xA9");
  EXPECT_EQ(Truncate("abc", 3), "abc");
  EXPECT_EQ(Truncate("abc", 0), "");
}

TEST_F(Output, LiveLinesRedrawOnlyOnATerminal) {
  {
    LiveLines lines(terminal_);
    lines.Add("a");
    lines.Add("long");
    lines.Show(0, "prefill");
    lines.Finish(1, "two");
    lines.Finish(0, "one");
  }
  EXPECT_EQ(out_.str(), "long  two\na     one\n");
  out_.str("");
  terminal_.out_is_tty = true;
  terminal_.width = 40;
  LiveLines lines(terminal_);
  lines.Add("a");
  lines.Add("b");
  lines.Show(0, std::string(50, 'x') + "END");
  lines.Finish(1, "two");
  EXPECT_EQ(out_.str(), "\r\033[Ka  ..." + std::string(30, 'x') + "END\n\r\033[Kb  \n" +
                            "\033[2A\r\033[Ka  ..." + std::string(30, 'x') +
                            "END\n\r\033[Kb  two\n");
}

}  // namespace
}  // namespace folio::cli
