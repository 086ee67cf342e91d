// Maps of pools, and strips of scores.
#include "services/cli/pool_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "services/cli/heat.h"

namespace folio::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

folio::v1::PageRun OfPages(uint32_t pages, folio::v1::PageState state, uint64_t sequence = 0) {
  folio::v1::PageRun run;
  run.set_pages(pages);
  run.set_state(state);
  run.set_sequence_id(sequence);
  return run;
}

TEST(PoolMap, ACharacterIsWhatMostOfItsPagesAre) {
  const std::vector<folio::v1::PageRun> runs = {
      OfPages(3, folio::v1::PAGE_STATE_HELD, 7),     OfPages(1, folio::v1::PAGE_STATE_FREE),
      OfPages(4, folio::v1::PAGE_STATE_QUARANTINED), OfPages(1, folio::v1::PAGE_STATE_HELD, 8),
      OfPages(3, folio::v1::PAGE_STATE_FREE),        OfPages(2, folio::v1::PAGE_STATE_HELD, 8)};
  const PoolMap map(runs);
  EXPECT_EQ(map.counts().total, 14U);
  EXPECT_EQ(map.counts().held, 6U);
  EXPECT_EQ(map.PagesOfACharacter(2, 2), 4U);
  EXPECT_THAT(map.Rows(MapBy::kState, 2, 2, false), ElementsAre("#!", ".#"));
  EXPECT_THAT(map.Rows(MapBy::kOwner, 4, 1, false), ElementsAre("A!.B"));
  EXPECT_THAT(map.Rows(MapBy::kState, 14, 1, false), ElementsAre("###.!!!!#...##"));
}

TEST(PoolMap, AMillionPagesFitOnAScreen) {
  std::vector<folio::v1::PageRun> runs;
  for (uint32_t i = 0; i < 1000; ++i) {
    runs.push_back(OfPages(1000, folio::v1::PAGE_STATE_HELD, 1 + i % 60));
  }
  const PoolMap map(runs);
  const auto rows = map.Rows(MapBy::kOwner, 78, 2, true);
  EXPECT_EQ(rows.size(), 2U);
  EXPECT_LE(rows[0].size(), 78U);
  EXPECT_EQ(map.Legend(MapBy::kOwner, true).size(), 14U);
}

TEST(PoolMap, NoPagesHaveNoRows) {
  EXPECT_THAT(PoolMap({}).Rows(MapBy::kScore, 80, 2, true), IsEmpty());
}

TEST(HeatStrip, ShowsRanks) {
  EXPECT_EQ(HeatStrip({1, 2, 3, 4}, 10, false), ".-+%");
  EXPECT_EQ(HeatStrip({-1e30F, 0, 1e30F, 5}, 10, false), ".-%+");
  EXPECT_EQ(HeatStrip({1, 1, 9, 9}, 2, false), ".+");
  EXPECT_EQ(HeatStrip({std::numeric_limits<float>::quiet_NaN(), 1}, 2, false), ".+");
  EXPECT_EQ(HeatStrip({}, 10, true), "");
}

}  // namespace
}  // namespace folio::cli
