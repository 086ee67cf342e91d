// Wide vectors give what plain loops do, bit for bit.
#include "services/policy/score_rows.h"

#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/policy/key_search.h"

namespace folio::policy {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class RandomRows {
 public:
  explicit RandomRows(uint64_t seed) : random_(seed) {}

  uint32_t Pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  // Rows with numbers of all sizes, and some that are none.
  std::vector<float> Make(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) {
      constexpr float kOdd[] = {NAN, -NAN, kInf, -kInf, FLT_MAX, -FLT_MAX, 0.0F, -0.0F, 1e-42F};
      const uint32_t kind = Pick(300);
      value = kind < std::size(kOdd) ? kOdd[kind]
                                     : std::ldexp(static_cast<float>(Pick(1U << 20)) - (1U << 19),
                                                  static_cast<int>(Pick(40)) - 20);
    }
    return values;
  }

 private:
  std::mt19937_64 random_;
};

TEST(ScoreRows, WideAgreesWithPlain) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  RandomRows random(seed);
  for (int round = 0; round < 3000; ++round) {
    const uint32_t heads = round % 2 == 0 ? 8 : 1 + random.Pick(17);
    const uint32_t count = random.Pick(40);
    const std::vector<float> rows = random.Make(size_t{count} * heads);
    std::vector<float> means(count), plain_means(count);
    RowMeans(rows.data(), count, heads, means.data());
    internal::PlainRowMeans(rows.data(), count, heads, plain_means.data());
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(means[i]), std::bit_cast<uint32_t>(plain_means[i]))
          << "row " << i << " of " << heads << " heads, round " << round;
    }
    const size_t stride = count + random.Pick(3);
    std::vector<int32_t> keys(heads * stride + 1), plain_keys(heads * stride + 1);
    RowKeys(rows.data(), count, heads, keys.data(), stride);
    internal::PlainRowKeys(rows.data(), count, heads, plain_keys.data(), stride);
    EXPECT_EQ(keys, plain_keys) << heads << " heads, round " << round;
  }
}

TEST(ScoreRows, KeysAreByHead) {
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  std::vector<int32_t> keys(6);
  RowKeys(rows.data(), 3, 2, keys.data(), 3);
  EXPECT_THAT(keys, ::testing::ElementsAre(SortKey(1), SortKey(3), SortKey(5), SortKey(2),
                                           SortKey(4), SortKey(6)));
}

TEST(MaskOf, NamesTheKeysThatAreHeld) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  RandomRows random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int32_t> keys(1 + random.Pick(300));
    for (int32_t& key : keys) key = static_cast<int32_t>(random.Pick(round % 3 == 0 ? 4 : 1000));
    const auto wanted = random.Pick(static_cast<uint32_t>(keys.size()) + 1);
    SearchGuess guess;
    const Highest highest = FindHighest(keys, wanted, guess);
    std::vector<uint32_t> expected[2], found[2];
    for (uint32_t i = 0; i < keys.size(); ++i) {
      expected[highest.Holds(keys[i], i) ? 1 : 0].push_back(i);
    }
    for (const bool held : {false, true}) {
      const std::vector<uint64_t> words = MaskOf(keys, highest, held);
      ForEachBit(words, [&](uint32_t i) { found[held ? 1 : 0].push_back(i); });
    }
    EXPECT_EQ(found[0], expected[0]);
    EXPECT_EQ(found[1], expected[1]);
    EXPECT_EQ(found[1].size(), wanted);
  }
}

TEST(OldestLowest, IsTheFirstOfTheLowest) {
  EXPECT_EQ(OldestLowest({3, 1, 2, 1}), 1U);
  EXPECT_EQ(OldestLowest({0.0F, -0.0F}), 0U);
  EXPECT_EQ(OldestLowest({-0.0F, 0.0F}), 0U);
  EXPECT_EQ(OldestLowest({kInf, kInf}), 0U);
  EXPECT_EQ(OldestLowest({1, NAN, -kInf}), 1U);
}

}  // namespace
}  // namespace folio::policy
