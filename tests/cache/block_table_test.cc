#include "services/cache/block_table.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace folio::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PageRef Page(uint32_t id) { return {PageId(id), Generation(1)}; }
PositionRange Range(uint32_t begin, uint32_t end) { return {Position(begin), Position(end)}; }

std::vector<TokenSlot> Slots(const std::vector<uint32_t>& values) {
  return {values.begin(), values.end()};
}

// Pages of four, `pages` of them, `tokens` appended.
BlockTable Filled(uint32_t pages, uint32_t tokens) {
  BlockTable table(4);
  for (uint32_t id = 0; id < pages; ++id) table.AddPage(Page(id));
  if (tokens > 0) table.Append(Position(0), TokenCount(tokens));
  return table;
}

TEST(BlockTable, StaysOneRunWithoutEviction) {
  BlockTable table = Filled(4, 5);
  table.Append(Position(5), TokenCount(6));
  EXPECT_THAT(table.positions(), ElementsAre(Range(0, 11)));
  EXPECT_EQ(table.resident(), TokenCount(11));
  EXPECT_EQ(table.capacity(), 16U);
  table.Append(Position(11), TokenCount(0));
  EXPECT_EQ(table.resident(), TokenCount(11));
  EXPECT_TRUE(table.CheckInvariants().ok());
}

TEST(BlockTable, RefusesMoreThanItsPagesHold) {
  BlockTable table = Filled(1, 3);
  EXPECT_DEATH(table.Append(Position(3), TokenCount(2)), "check failed");
  EXPECT_DEATH(table.Append(Position(2), TokenCount(1)), "check failed");  // behind what is there
}

TEST(BlockTable, CompactKeepsPositionsAndFirstPages) {
  BlockTable table = Filled(4, 13);
  const PageList freed = table.Compact(Slots({0, 1, 5, 6, 7, 9, 11, 12}), PageCount(1));
  EXPECT_THAT(freed, ElementsAre(Page(3)));
  EXPECT_THAT(table.pages(), ElementsAre(Page(0), Page(1), Page(2)));
  EXPECT_THAT(table.positions(),
              ElementsAre(Range(0, 2), Range(5, 8), Range(9, 10), Range(11, 13)));
  EXPECT_EQ(table.resident(), TokenCount(8));
  table.Append(Position(13), TokenCount(2));
  EXPECT_THAT(table.positions().back(), Range(11, 15));
  EXPECT_TRUE(table.CheckInvariants().ok());
}

// A table in a row is compacted in another way than one with holes.
TEST(BlockTable, CompactsWhatBeginsLate) {
  BlockTable table(4);
  for (int i = 0; i < 3; ++i) table.AddPage(Page(0));
  table.Append(Position(100), TokenCount(10));
  table.Compact(Slots({0, 3, 4, 5, 6, 9}), PageCount(0));
  EXPECT_THAT(table.positions(), ElementsAre(Range(100, 101), Range(103, 107), Range(109, 110)));
  EXPECT_TRUE(table.CheckInvariants().ok());
}

TEST(BlockTable, CompactsTwice) {
  BlockTable table = Filled(3, 12);
  EXPECT_THAT(table.Compact(Slots({1, 3, 5, 7, 9, 11}), PageCount(0)), ElementsAre(Page(2)));
  EXPECT_THAT(table.Compact(Slots({0, 2, 3, 5}), PageCount(0)), ElementsAre(Page(1)));
  EXPECT_THAT(table.positions(), ElementsAre(Range(1, 2), Range(5, 6), Range(7, 8), Range(11, 12)));
}

TEST(BlockTable, DropTakesOneBlockOut) {
  BlockTable table = Filled(4, 14);
  EXPECT_THAT(table.Drop(BlockIndex(1)), ElementsAre(Page(1)));
  EXPECT_THAT(table.pages(), ElementsAre(Page(0), Page(2), Page(3)));
  EXPECT_THAT(table.positions(), ElementsAre(Range(0, 4), Range(8, 14)));
  EXPECT_THAT(table.Drop(BlockIndex(0)), ElementsAre(Page(0)));
  EXPECT_THAT(table.positions(), ElementsAre(Range(8, 14)));
  EXPECT_EQ(table.resident(), TokenCount(6));
  EXPECT_DEATH(table.Drop(BlockIndex(1)), "check failed");  // only half full
  EXPECT_TRUE(table.CheckInvariants().ok());
}

TEST(BlockTable, DropTakesBlocksInARowOut) {
  BlockTable table = Filled(4, 14);
  EXPECT_THAT(table.Drop(BlockIndex(0), 0), IsEmpty());
  EXPECT_THAT(table.Drop(BlockIndex(0), 2), ElementsAre(Page(0), Page(1)));
  EXPECT_THAT(table.pages(), ElementsAre(Page(2), Page(3)));
  EXPECT_THAT(table.positions(), ElementsAre(Range(8, 14)));
  EXPECT_EQ(table.resident(), TokenCount(6));
  EXPECT_DEATH(table.Drop(BlockIndex(0), 2), "check failed");  // the second is only half full
  EXPECT_TRUE(table.CheckInvariants().ok());
}

TEST(BlockTable, ClearGivesEveryPage) {
  BlockTable table = Filled(2, 5);
  EXPECT_THAT(table.Clear(), ElementsAre(Page(0), Page(1)));
  EXPECT_EQ(table.resident(), TokenCount(0));
  EXPECT_THAT(table.pages(), IsEmpty());
  EXPECT_THAT(table.positions(), IsEmpty());
}

std::vector<uint32_t> Expand(const BlockTable& table) {
  std::vector<uint32_t> positions;
  for (const PositionRange& run : table.positions()) {
    for (uint32_t p = run.begin.value(); p < run.end.value(); ++p) positions.push_back(p);
  }
  return positions;
}

TEST(BlockTable, RandomEditsAgreeWithAPlainList) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    BlockTable table(4);
    std::vector<uint32_t> expected;
    uint32_t next = 0;
    for (int step = 0; step < 60; ++step) {
      const uint32_t full_blocks = static_cast<uint32_t>(expected.size() / 4);
      const uint32_t kind = random() % 5;
      if (kind == 4) {
        const uint32_t blocks = random() % std::min(3U, full_blocks + 1);
        table.Drop(BlockIndex(0), blocks);
        expected.erase(expected.begin(), expected.begin() + ptrdiff_t{4} * blocks);
      } else if (kind == 0 && full_blocks > 0) {
        const uint32_t block = random() % full_blocks;
        table.Drop(BlockIndex(block));
        const auto first = expected.begin() + ptrdiff_t{4} * block;
        expected.erase(first, first + 4);
      } else if (kind == 1 && step % 5 == 0 && !expected.empty()) {
        std::vector<uint32_t> keep;
        std::vector<uint32_t> kept;
        for (uint32_t slot = 0; slot < expected.size(); ++slot) {
          if (random() % 3 == 0) continue;
          keep.push_back(slot);
          kept.push_back(expected[slot]);
        }
        table.Compact(Slots(keep), PageCount(0));
        expected = kept;
      } else {
        const uint32_t count = random() % 6;
        while (table.capacity() < expected.size() + count) table.AddPage(Page(0));
        table.Append(Position(next), TokenCount(count));
        for (uint32_t i = 0; i < count; ++i) expected.push_back(next++);
      }
      ASSERT_EQ(Expand(table), expected) << "round " << round << " step " << step;
      ASSERT_TRUE(table.CheckInvariants().ok());
      const uint32_t position = random() % (next + 1);
      const auto before = std::lower_bound(expected.begin(), expected.end(), position);
      ASSERT_EQ(table.CountBefore(Position(position)).value(), before - expected.begin());
    }
  }
}

}  // namespace
}  // namespace folio::cache
