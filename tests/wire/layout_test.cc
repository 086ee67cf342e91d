#include "services/wire/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace folio::wire {
namespace {

using ::testing::HasSubstr;

// Layers 1 and 4 of 6 attend to 40 tokens, and give them up by 32.
v1::ModelLayout Windowed() {
  CacheGeometry geometry = {.num_layers = 6, .num_kv_heads = 2, .head_dim = 64, .page_tokens = 16};
  geometry.windows = LayerWindows(40, 32);
  geometry.windows.Add(1);
  geometry.windows.Add(4);
  v1::ModelLayout layout;
  SetGeometry(geometry, &layout);
  layout.set_fingerprint("f");
  layout.set_data_type(v1::DATA_TYPE_BFLOAT16);
  return layout;
}

TEST(Layout, WindowsTravel) {
  const v1::ModelLayout layout = Windowed();
  ASSERT_TRUE(CheckLayout(layout).ok());
  const CacheGeometry read = GeometryOf(layout);
  EXPECT_EQ(read.windows.tokens(), 40U);
  EXPECT_EQ(read.windows.stride(), 32U);
  for (uint32_t layer = 0; layer < 6; ++layer) {
    EXPECT_EQ(read.windows.contains(layer), layer == 1 || layer == 4);
  }
  v1::ModelLayout again;
  SetGeometry(read, &again);
  EXPECT_EQ(GeometryOf(again), read);
}

TEST(Layout, ImpossibleWindowsAreRefused) {
  const auto refused = [](const std::vector<uint32_t>& layers, uint32_t tokens, uint32_t stride) {
    v1::ModelLayout layout = Windowed();
    layout.clear_window_layers();
    for (const uint32_t layer : layers) layout.add_window_layers(layer);
    layout.set_window_tokens(tokens);
    layout.set_window_stride_tokens(stride);
    const absl::Status status = CheckLayout(layout);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refused({}, 40, 32), HasSubstr("set both or neither"));
  EXPECT_THAT(refused({1}, 0, 32), HasSubstr("set both or neither"));
  EXPECT_THAT(refused({1, 6}, 40, 32), HasSubstr("window_layers: 6"));
  EXPECT_THAT(refused({4, 1}, 40, 32), HasSubstr("window_layers: 1"));
  EXPECT_THAT(refused({1, 1}, 40, 32), HasSubstr("window_layers: 1"));
  EXPECT_THAT(refused({1}, 40, 0), HasSubstr("window_stride_tokens: 0"));
  EXPECT_THAT(refused({1}, 40, 24), HasSubstr("window_stride_tokens: 24"));
  EXPECT_THAT(refused({1}, 40, 1U << 30), HasSubstr("window_stride_tokens"));
}

TEST(Layout, OtherWindowsAreNamed) {
  v1::ModelLayout other = Windowed();
  other.set_window_tokens(48);
  other.set_window_layers(0, 0);
  const absl::Status differs = CompareLayouts(Windowed(), other);
  EXPECT_THAT(differs.message(), HasSubstr("layout.window_tokens: the pool has 40, the worker 48"));
  EXPECT_THAT(differs.message(), HasSubstr("layout.window_layers"));
}

}  // namespace
}  // namespace folio::wire
