// The numbers of FP8 against their definition: all codes, and rounding by a search among them.
#include "kernels/e4m3.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

namespace folio::kernels {
namespace {

// The definition: a sign, an exponent with a bias of 7, and a mantissa of eighths.
double Defined(uint32_t code) {
  const int exponent = static_cast<int>(code >> 3 & 15);
  const double eighths = code & 7;
  const double size =
      exponent == 0 ? std::ldexp(eighths / 8, -6) : std::ldexp(1 + eighths / 8, exponent - 7);
  return code >= 0x80 ? -size : size;
}

bool IsNan(uint32_t code) { return (code & 0x7f) == 0x7f; }

// The nearest code of x's sign; of two that are as near, the one with an even mantissa.
uint8_t Nearest(float x) {
  const double size = std::fabs(double{x});
  uint32_t best = 0;
  for (uint32_t code = 1; code < 0x7f; ++code) {
    const double off = std::fabs(Defined(code) - size);
    const double least = std::fabs(Defined(best) - size);
    if (off < least || (off == least && code % 2 == 0)) best = code;
  }
  return static_cast<uint8_t>(best | (std::signbit(x) ? 0x80 : 0));
}

TEST(E4m3Test, EveryCodeIsItsNumberAndRoundsToItself) {
  for (uint32_t code = 0; code < 256; ++code) {
    const e4m3 number{static_cast<uint8_t>(code)};
    if (IsNan(code)) {
      EXPECT_TRUE(std::isnan(number.ToFloat())) << code;
      EXPECT_EQ(e4m3::Round(number.ToFloat()).bits & 0x7f, 0x7f) << code;
      continue;
    }
    EXPECT_EQ(number.ToFloat(), Defined(code)) << code;
    EXPECT_EQ(std::signbit(number.ToFloat()), code >= 0x80) << code;
    EXPECT_EQ(e4m3::Round(number.ToFloat()).bits, code);
  }
  EXPECT_EQ(e4m3{0x7e}.ToFloat(), e4m3::kMax);
}

TEST(E4m3Test, RoundsToTheNearestAndTiesToEven) {
  const auto expect = [](float x) {
    ASSERT_EQ(e4m3::Round(x).bits, Nearest(x)) << x;
    ASSERT_EQ(e4m3::Round(-x).bits, Nearest(-x)) << -x;
  };
  for (uint32_t code = 0; code < 0x7e; ++code) {
    const auto middle = static_cast<float>((Defined(code) + Defined(code + 1)) / 2);
    expect(middle);
    expect(std::nextafter(middle, 0.0f));
    expect(std::nextafter(middle, 1000.0f));
  }
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random()) & 0x7fffffffu);
    if (std::isfinite(x)) expect(x);
    expect(std::ldexp(static_cast<float>(random() >> 8), -24 - static_cast<int>(random() % 12)));
  }
}

TEST(E4m3Test, WhatIsTooLargeBecomesTheLargest) {
  for (const float x : {448.0f, 449.0f, 464.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(e4m3::Round(x).bits, 0x7e) << x;
    EXPECT_EQ(e4m3::Round(-x).bits, 0xfe) << x;
  }
}

TEST(E4m3Test, ARowIsCodesTimesItsScale) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const float size : {1.0f, 1e-20f, 1e20f}) {
    std::vector<float> row(1000);
    float most = 0;
    for (float& x : row) {
      x = size * normal(random);
      most = std::max(most, std::fabs(x));
    }
    std::vector<e4m3> codes(row.size());
    const float scale = QuantizeRow(row.data(), row.size(), codes.data());
    EXPECT_EQ(scale, most / e4m3::kMax);
    for (size_t i = 0; i < row.size(); ++i) {
      // Half a step: a sixteenth of the number, or of the smallest normal one.
      ASSERT_NEAR(codes[i].ToFloat() * scale, row[i],
                  std::max(std::fabs(row[i]), scale * 0x1p-6f) / 15.9f)
          << i;
    }
  }
}

TEST(E4m3Test, ARowOfZerosStaysZeroAndNanStays) {
  std::vector<float> row(16);
  std::vector<e4m3> codes(row.size(), e4m3{0x33});
  EXPECT_TRUE(std::isfinite(QuantizeRow(row.data(), row.size(), codes.data())));
  for (const e4m3 code : codes) EXPECT_EQ(code.bits, 0);
  row[3] = std::numeric_limits<float>::quiet_NaN();
  row[4] = 2;
  EXPECT_EQ(QuantizeRow(row.data(), row.size(), codes.data()), 2 / e4m3::kMax);
  EXPECT_EQ(codes[3].bits & 0x7f, 0x7f);
  EXPECT_EQ(codes[4].bits, 0x7e);
}

}  // namespace
}  // namespace folio::kernels
