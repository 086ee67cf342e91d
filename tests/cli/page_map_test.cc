#include "services/cli/page_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace folio::cli {
namespace {

using ::testing::HasSubstr;

TEST(Bar, ShowsHowMuchOfEachPartIsKept) {
  const Ranges ranges = {{0, 10}, {13, 14}, {23, 28}, {31, 40}};
  EXPECT_EQ(RenderBar(ranges, 50, 5, false), "#.:+ ");
  EXPECT_EQ(RenderBar(ranges, 50, 5, true), "█░▒▓ ");
  EXPECT_EQ(RenderBar({{0, 3}}, 3, 80, false), "###");
  EXPECT_EQ(RenderBar({}, 100, 10, false), std::string(10, ' '));
  // Uneven parts cover everything once.
  EXPECT_EQ(RenderBar({{0, 7}}, 7, 3, false), "###");
  EXPECT_EQ(RenderBar({{6, 7}}, 7, 3, false), "  .");
}

TEST(Map, MergesLayersThatKeptTheSame) {
  std::istringstream in;
  std::ostringstream out;
  Interrupts interrupts([] {});
  Terminal terminal{in, out, out, interrupts};
  const Ranges all = {{0, 20}};
  const Ranges half = {{0, 10}};
  MapOptions options;
  options.prompt_tokens = 15;
  options.length = 20;
  EXPECT_EQ(RenderMap({all, all, half}, {}, options, terminal),
            "layer  kept  positions 0 to 20\n"
            "  0-1    20  |####################|\n"
            "    2    10  |##########          |\n"
            "one character: 1 positions; # all kept, . few, blank none; the prompt ends at 15\n");
  const std::vector<std::string> notes = {"2", "3", "3"};
  EXPECT_THAT(RenderMap({all, all, half}, notes, options, terminal),
              HasSubstr("    0    20  |####################|  2\n"
                        "    1    20  |####################|  3\n"));
  options.max_rows = 2;
  options.scale = false;
  EXPECT_EQ(RenderMap({all, half, all, half, all}, {}, options, terminal),
            "layer  kept  positions 0 to 20\n"
            "    0    20  |####################|\n"
            "    4    20  |####################|\n");
  EXPECT_EQ(RenderMap({}, {}, options, terminal), "");
}

}  // namespace
}  // namespace folio::cli
