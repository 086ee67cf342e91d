#include "services/model/executor/rope.h"

#include <cmath>

#include "gtest/gtest.h"

namespace folio::model {
namespace {

ModelConfig Config() {
  ModelConfig config;
  config.head_dim = 64;
  config.context = 1000;
  config.rope_theta = 100000;
  return config;
}

TEST(InverseFrequencies, ArePowersOfTheta) {
  const auto frequencies = InverseFrequencies(Config());
  ASSERT_EQ(frequencies.size(), 32u);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double exact = std::pow(100000.0, -double(i) / 32);
    EXPECT_NEAR(frequencies[i] / exact, 1, 2e-7);
  }
}

TEST(InverseFrequencies, Divisors) {
  ModelConfig config = Config();
  for (int i = 0; i < 32; ++i) config.rope_divisors.push_back(1.0f + float(i));
  const auto plain = InverseFrequencies(Config());
  const auto divided = InverseFrequencies(config);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(divided[i], plain[i] / (1.0f + float(i)));
}

// Short waves stay, long ones are stretched by the factor, between them is a ramp.
TEST(InverseFrequencies, Llama3Scaling) {
  ModelConfig config = Config();
  config.rope_scaling = RopeScaling{8, 1, 4, 8192};
  const auto plain = InverseFrequencies(Config());
  const auto scaled = InverseFrequencies(config);
  int between = 0;
  for (int i = 0; i < 32; ++i) {
    const double wavelength = 2 * M_PI / plain[i];
    if (wavelength < 8192.0 / 4) {
      EXPECT_EQ(scaled[i], plain[i]);
    } else if (wavelength > 8192) {
      EXPECT_EQ(scaled[i], plain[i] / 8);
    } else {
      const double smooth = (8192 / wavelength - 1) / 3;
      EXPECT_NEAR(scaled[i], plain[i] * (smooth + (1 - smooth) / 8), 1e-6 * plain[i]);
      ++between;
    }
  }
  EXPECT_GT(between, 0);
}

TEST(RopeAngles, GrowsUpToTheContext) {
  RopeAngles angles(Config());
  const auto frequencies = InverseFrequencies(Config());
  EXPECT_GE(angles.Table(1).positions, 1u);
  const auto table = angles.Table(700);
  EXPECT_GE(table.positions, 700u);
  for (const size_t p : {0, 1, 255, 256, 699}) {
    for (const size_t i : {0, 7, 31}) {
      const float angle = float(p) * frequencies[i];
      EXPECT_EQ(table.cos[p * 32 + i], float(std::cos(double{angle})));
      EXPECT_EQ(table.sin[p * 32 + i], float(std::sin(double{angle})));
    }
  }
  EXPECT_EQ(angles.Table(1000).positions, 1000u);
  EXPECT_DEATH(angles.Table(1001), "check failed");
}

}  // namespace
}  // namespace folio::model
