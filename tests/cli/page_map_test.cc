#include "services/cli/page_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace folio::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

folio::v1::EvictionEvent Compact(const std::vector<std::vector<uint32_t>>& kept) {
  folio::v1::EvictionEvent event;
  event.set_step(-1);
  for (const auto& layer : kept) {
    auto* to = event.add_layers();
    to->mutable_kept()->Add(layer.begin(), layer.end());
    to->set_dropped_block(-1);
  }
  return event;
}

folio::v1::EvictionEvent Drop(int32_t step, const std::vector<int32_t>& blocks) {
  folio::v1::EvictionEvent event;
  event.set_step(step);
  for (const int32_t block : blocks) event.add_layers()->set_dropped_block(block);
  return event;
}

TEST(KeptPositions, WithoutEventsEverythingStays) {
  KeptPositions kept(2, 4, 10);
  kept.Extend(13);
  EXPECT_THAT(kept.layers(), ElementsAre(Ranges{{0, 13}}, Ranges{{0, 13}}));
}

TEST(KeptPositions, ReplaysCompactionAndDrops) {
  // Pages of 4; a prompt of 12 compacted to 8.
  KeptPositions kept(2, 4, 12);
  ASSERT_TRUE(kept.Apply(Compact({{0, 1, 2, 3, 5, 6, 10, 11}, {0, 1, 2, 3, 8, 9, 10, 11}})).ok());
  EXPECT_THAT(kept.layers(),
              ElementsAre(Ranges{{0, 4}, {5, 7}, {10, 12}}, Ranges{{0, 4}, {8, 12}}));
  // Four tokens fill a page: block 1 goes in layer 0, block 2 (just filled) in layer 1.
  ASSERT_TRUE(kept.Apply(Drop(3, {1, 2})).ok());
  EXPECT_THAT(kept.layers(), ElementsAre(Ranges{{0, 4}, {12, 16}}, Ranges{{0, 4}, {8, 12}}));
  kept.Extend(18);
  EXPECT_THAT(kept.layers(),
              ElementsAre(Ranges{{0, 4}, {12, 18}}, Ranges{{0, 4}, {8, 12}, {16, 18}}));
}

TEST(KeptPositions, RefusesEventsThatDoNotFit) {
  KeptPositions kept(2, 4, 12);
  EXPECT_FALSE(kept.Apply(Drop(0, {1})).ok());
  EXPECT_FALSE(kept.Apply(Drop(0, {1, 3})).ok());
  EXPECT_FALSE(kept.Apply(Drop(0, {-2, 1})).ok());
}

TEST(Bar, ShowsHowMuchOfEachPartIsKept) {
  const Ranges ranges = {{0, 10}, {13, 14}, {23, 28}, {31, 40}};
  EXPECT_EQ(RenderBar(ranges, 50, 5, false), "#.:+ ");
  EXPECT_EQ(RenderBar(ranges, 50, 5, true), "█░▒▓ ");
  EXPECT_EQ(RenderBar({{0, 3}}, 3, 80, false), "###");
  EXPECT_EQ(RenderBar({}, 100, 10, false), std::string(10, ' '));
  // Uneven parts cover everything once.
  EXPECT_EQ(RenderBar({{0, 7}}, 7, 3, false), "###");
  EXPECT_EQ(RenderBar({{6, 7}}, 7, 3, false), "  .");
  EXPECT_EQ(CountPositions(ranges), 25U);
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
