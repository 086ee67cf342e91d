#include "services/manager/admin_messages.h"

#include <gtest/gtest.h>

namespace folio::manager {
namespace {

TEST(Detail, ShowsTablesAndPositions) {
  CacheGeometry geometry;
  geometry.num_layers = 1;
  geometry.num_kv_heads = 1;
  geometry.head_dim = 8;
  cache::SequenceDetail detail;
  detail.info.id = SequenceId(4);
  detail.info.worker = WorkerId(2);
  detail.info.state = cache::SequenceState::kEvicting;
  detail.info.held_pages = PageCount(3);
  detail.info.age = absl::Seconds(2);
  detail.layers.push_back({{{PageId(7), Generation(1)}},
                           TokenCount(10),
                           {{Position(0), Position(4)}, {Position(20), Position(26)}},
                           {}});
  const v1::GetSequenceResponse out = DetailToProto(detail, geometry);
  EXPECT_EQ(out.sequence().sequence_id(), 4U);
  EXPECT_EQ(out.sequence().worker_id(), "w2");
  EXPECT_EQ(out.sequence().state(), v1::SEQUENCE_STATE_EVICTING);
  EXPECT_EQ(out.sequence().held_bytes(), 3 * geometry.page_bytes());
  EXPECT_EQ(out.sequence().age_ms(), 2000U);
  ASSERT_EQ(out.layers_size(), 1);
  EXPECT_EQ(out.layers(0).resident_tokens(), 10U);
  EXPECT_EQ(out.layers(0).pages(0).page(), 7U);
  ASSERT_EQ(out.layers(0).kept_size(), 2);
  EXPECT_EQ(out.layers(0).kept(1).begin(), 20U);
  EXPECT_EQ(out.layers(0).kept(1).end(), 26U);
}

}  // namespace
}  // namespace folio::manager
