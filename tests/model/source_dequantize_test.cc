// Storage formats against values worked out by hand.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/dequantize.h"
#include "tests/testing/quantize.h"

namespace folio::model {
namespace {

using ::testing::HasSubstr;

const std::byte* Bytes(const std::string& text) {
  return reinterpret_cast<const std::byte*>(text.data());
}

std::string Half(uint16_t bits) {
  return {static_cast<char>(bits & 0xff), static_cast<char>(bits >> 8)};
}

std::vector<float> Dequantize(StorageType type, const std::string& bytes, size_t count) {
  std::vector<float> out(count);
  DequantizeRow(type, Bytes(bytes), count, out.data());
  return out;
}

TEST(HalfToFloat, KnownNumbers) {
  EXPECT_EQ(HalfToFloat(0x0000), 0.0f);
  EXPECT_TRUE(std::signbit(HalfToFloat(0x8000)));
  EXPECT_EQ(HalfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfToFloat(0xc000), -2.0f);
  EXPECT_EQ(HalfToFloat(0x3555), 0.333251953125f);
  EXPECT_EQ(HalfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(HalfToFloat(0x0400), 0x1p-14f);  // smallest normal
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);  // smallest subnormal
  EXPECT_EQ(HalfToFloat(0x83ff), -1023 * 0x1p-24f);
  EXPECT_TRUE(std::isinf(HalfToFloat(0x7c00)));
  EXPECT_LT(HalfToFloat(0xfc00), 0);
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7e00)));
}

TEST(HalfToFloat, EveryNumberSurvivesTheWayBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(::folio::testing::FloatToHalf(value), bits);
    }
  }
}

TEST(DequantizeRow, PlainFloats) {
  const float values[] = {1.5f, -2.25f};
  std::string bytes(sizeof values, '\0');
  std::memcpy(bytes.data(), values, sizeof values);
  EXPECT_THAT(Dequantize(StorageType::kF32, bytes, 2), ::testing::ElementsAre(1.5f, -2.25f));
  EXPECT_THAT(Dequantize(StorageType::kF16, Half(0x3e00) + Half(0xc080), 2),
              ::testing::ElementsAre(1.5f, -2.25f));
  EXPECT_THAT(Dequantize(StorageType::kBF16, Half(0x3fc0) + Half(0xc010), 2),
              ::testing::ElementsAre(1.5f, -2.25f));
}

TEST(DequantizeRow, Q8) {
  std::string block = Half(0x3800);  // 0.5
  for (int i = 0; i < 32; ++i) block.push_back(static_cast<char>(i * 8 - 128));
  block += Half(0xbc00) + std::string(32, '\x7f');  // -1, all 127
  const std::vector<float> out = Dequantize(StorageType::kQ8_0, block, 64);
  EXPECT_EQ(out[0], -64.0f);
  EXPECT_EQ(out[1], -60.0f);
  EXPECT_EQ(out[16], 0.0f);
  EXPECT_EQ(out[31], 60.0f);
  EXPECT_EQ(out[32], -127.0f);
  EXPECT_EQ(out[63], -127.0f);
}

TEST(DequantizeRow, Q4WithoutOffset) {
  std::string block = Half(0x4000);  // 2
  for (int i = 0; i < 16; ++i) block.push_back(static_cast<char>(i | ((15 - i) << 4)));
  const std::vector<float> out = Dequantize(StorageType::kQ4_0, block, 32);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], 2.0f * (static_cast<float>(i) - 8));
    EXPECT_EQ(out[i + 16], 2.0f * (7 - static_cast<float>(i)));
  }
}

TEST(DequantizeRow, Q4WithOffset) {
  std::string block = Half(0x3400) + Half(0xc200);  // 0.25 and -3
  for (int i = 0; i < 16; ++i) block.push_back(static_cast<char>(i | 0xf0));
  const std::vector<float> out = Dequantize(StorageType::kQ4_1, block, 32);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], 0.25f * static_cast<float>(i) - 3);
    EXPECT_EQ(out[i + 16], 0.75f);
  }
}

std::vector<size_t> StoredRows(const RowOrder& order, size_t rows) {
  std::vector<size_t> stored;
  for (size_t row = 0; row < rows; ++row) stored.push_back(order.Stored(row));
  return stored;
}

TEST(RowOrder, BringsPairsBackToHalves) {
  // Stored, of a head of 6: a0 b0 a1 b1 a2 b2. Wanted: a0 a1 a2 b0 b1 b2.
  EXPECT_THAT(StoredRows({6, 6, true}, 12),
              ::testing::ElementsAre(0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11));
}

TEST(RowOrder, HalvesStay) {
  EXPECT_THAT(StoredRows({6, 6, false}, 7), ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(StoredRows({}, 3), ::testing::ElementsAre(0, 1, 2));
}

// Rows behind the rotated ones become pairs of their own.
TEST(RowOrder, PairsRowsThatAreNotRotated) {
  // Stored, of a head of 8 with 4 rotated rows: a0 a1 b0 b1 r0 r1 r2 r3.
  EXPECT_THAT(StoredRows({8, 4, false}, 16),
              ::testing::ElementsAre(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  // a0 b0 a1 b1 r0 r1 r2 r3
  EXPECT_THAT(StoredRows({8, 4, true}, 8), ::testing::ElementsAre(0, 2, 4, 5, 1, 3, 6, 7));
}

// The reason for the order: rotating neighbours (2i, 2i+1) of the stored rows must give the same as
// rotating (i, i + half) of ours, so that query times key is the same number.
TEST(RowOrder, KeepsTheRotatedPairsTogether) {
  constexpr size_t kDim = 64;
  const RowOrder order = {kDim, kDim, true};
  for (size_t i = 0; i < kDim / 2; ++i) {
    EXPECT_EQ(order.Stored(i), 2 * i);
    EXPECT_EQ(order.Stored(i + kDim / 2), 2 * i + 1);
  }
}

TEST(ReadBf16, RoundsToNearestEven) {
  const float values[] = {1.00390625f, 1.01171875f, 1.0001f, -3.0f};  // two ties, up, exact
  const StoredTensor tensor{
      "f",
      "t",
      StorageType::kF32,
      "F32",
      {2, 2},
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values), sizeof values)};
  const auto read = ReadBf16(tensor, {});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)[0].ToFloat(), 1.0f);
  EXPECT_EQ((*read)[1].ToFloat(), 1.015625f);
  EXPECT_EQ((*read)[2].ToFloat(), 1.0f);
  EXPECT_EQ((*read)[3].ToFloat(), -3.0f);
}

TEST(ReadBf16, RefusesWhatIsNotFinite) {
  const float values[] = {0, 1, 2, std::nanf("")};
  const float large[] = {0, 3.4e38f, 0, 0};  // rounds to infinity in bf16
  for (const auto* data : {values, large}) {
    const StoredTensor tensor{
        "file",
        "weight",
        StorageType::kF32,
        "F32",
        {2, 2},
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(data), sizeof values)};
    const auto read = ReadBf16(tensor, {});
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(read.status().message(), HasSubstr("file: tensor weight: a value is NaN"));
    EXPECT_THAT(read.status().message(),
                HasSubstr(data == values ? "row 1, column 1" : "row 0, column 1"));
  }
}

}  // namespace
}  // namespace folio::model
