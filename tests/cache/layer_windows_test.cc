#include "services/base/layer_windows.h"

#include <algorithm>
#include <utility>

#include "gtest/gtest.h"

namespace folio {
namespace {

// Restates the rule: once a page fills, the strides that no later token attends to go.
uint32_t Behind(uint32_t window, uint32_t stride, uint32_t length, uint32_t page) {
  const uint32_t full = length / page * page;
  uint32_t behind = 0;
  // The next token is at `full` or later, and attends to `window` tokens up to itself.
  while (behind + stride + window <= full) behind += stride;
  return behind;
}

TEST(LayerWindows, PagesGoOnceNoLaterTokenSeesThem) {
  for (const auto& [page, stride] : {std::pair(1U, 1U), {4, 4}, {4, 12}, {16, 16}, {16, 64}}) {
    for (uint32_t window = 1; window < 70; ++window) {
      LayerWindows windows(window, stride);
      windows.Add(3);
      for (uint32_t length = 0; length < 300; ++length) {
        const uint32_t behind = windows.TokensBehind(3, length, page);
        ASSERT_EQ(behind, Behind(window, stride, length, page))
            << window << " tokens, length " << length << ", page " << page;
        ASSERT_LE((length - behind) / page * page, windows.MostFullTokens(page));
        ASSERT_EQ(windows.TokensBehind(2, length, page), 0U);
        // Whether nothing has gone before, or all but one page.
        ASSERT_EQ(windows.PagesPassed(3, length, length, page), behind / page);
        ASSERT_EQ(windows.PagesPassed(3, length, length - behind, page), 0U);
        ASSERT_EQ(windows.PagesPassed(3, length, length - std::max(behind, page) + page, page),
                  behind > 0 ? 1U : 0U);
        ASSERT_EQ(windows.PagesPassed(2, length, length / 2, page), 0U);
        // The newest token stays, and the next one sees all of its window.
        ASSERT_TRUE(length == 0 || behind < length);
        ASSERT_LE(behind + window, std::max(length + 1, window));
      }
    }
  }
}

TEST(LayerWindows, LayersAreNamedOneByOne) {
  LayerWindows windows(8, 16);
  EXPECT_TRUE(windows.any());
  EXPECT_FALSE(LayerWindows().any());
  for (const uint32_t layer : {0U, 63U, 64U, kMaxLayers - 1}) {
    EXPECT_FALSE(windows.contains(layer));
    windows.Add(layer);
    EXPECT_TRUE(windows.contains(layer));
  }
  EXPECT_FALSE(windows.contains(1));
  EXPECT_FALSE(windows.contains(65));
}

}  // namespace
}  // namespace folio
