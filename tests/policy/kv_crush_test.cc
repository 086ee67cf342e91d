// KVCrush by hand, then against tests/oracle/policies.json.
#include "services/policy/kv_crush.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "services/base/split_mix.h"
#include "services/policy/registry.h"
#include "tests/policy/score_table.h"
#include "tests/policy/signature.h"

namespace folio::policy {
namespace {

using ::testing::ElementsAre;

const std::map<std::string, CrushAnchor> kAnchors = {{"zeros", CrushAnchor::kZeros},
                                                     {"ones", CrushAnchor::kOnes},
                                                     {"alternating", CrushAnchor::kAlternating},
                                                     {"mean", CrushAnchor::kMean}};

std::shared_ptr<const Policy> Crush(float share, CrushAnchor anchor, uint64_t seed = 0) {
  return MakePolicy(KvCrushSpec{.options = {share, anchor, seed}});
}

// Eight tokens of two heads; 0, 1 are sinks and 6, 7 recent. The budget of 6 leaves 2 of the
// middle, of which share 0.17 (floor(1.02) = 1) gives one to a representative.
//
//   token   scores   mean   bit of head 0   of head 1   (upper two of four)
//     2      9, 1     5           1             0       the base keeps it
//     3      3, 3     3           1             1
//     4      2, 7     4.5         0             1
//     5      1, 2     1.5         0             0
//
// One representative is the nearest candidate: 5 to zeros (00), 3 to ones (11), 4 to alternating
// (01). The candidates' columns have means 1/3 and 2/3, so the mean anchor is 01 and picks 4.
TEST(KvCrush, PrefillByHand) {
  const ScoreTable table({{0, 0}, {0, 0}, {9, 1}, {3, 3}, {2, 7}, {1, 2}, {0, 0}, {0, 0}}, 2);
  const Limits limits = MakeLimits(6, 2, 2);
  const auto keep = [&](float share, CrushAnchor anchor) {
    return Values(Crush(share, anchor)->SelectPrefill(table.view(), limits));
  };
  EXPECT_THAT(keep(0.17F, CrushAnchor::kZeros), ElementsAre(0, 1, 2, 5, 6, 7));
  EXPECT_THAT(keep(0.17F, CrushAnchor::kOnes), ElementsAre(0, 1, 2, 3, 6, 7));
  EXPECT_THAT(keep(0.17F, CrushAnchor::kAlternating), ElementsAre(0, 1, 2, 4, 6, 7));
  EXPECT_THAT(keep(0.17F, CrushAnchor::kMean), ElementsAre(0, 1, 2, 4, 6, 7));
  // Nothing for representatives: the base's choice.
  EXPECT_THAT(keep(0.16F, CrushAnchor::kZeros), ElementsAre(0, 1, 2, 4, 6, 7));
  // All for representatives: of four by distance to 00, which are 5 (0), 2 (1), 4 (1), 3 (2), both
  // ends stay.
  EXPECT_THAT(keep(0.34F, CrushAnchor::kZeros), ElementsAre(0, 1, 3, 5, 6, 7));
}

// Six pages of two tokens, two heads; page 0 is a sink and page 5 recent.
//
//   page   token  scores  bits     page mean   signature
//    1       2     8, 1    1 0       3.25        1000
//            3     2, 2    0 0
//    2       4     7, 7    1 1       7           (kept by the base)
//            5     6, 8    1 1
//    3       6     1, 6    0 1       3.75        0110
//            7     5, 3    1 0
//    4       8     3, 5    0 1       4           0100
//            9     4, 4    0 0
//
// Bits: head 0 ranks 8, 7, 6, 5 in the upper four of eight, head 1 ranks 8, 7, 6, 5 there.
class KvCrushDecode : public ::testing::Test {
 protected:
  uint32_t Drop(float share, CrushAnchor anchor) {
    return Crush(share, anchor)->SelectDecode(table_.view(), MakeLimits(10, 2, 2)).value();
  }
  const ScoreTable table_{{{0, 0},
                           {0, 0},
                           {8, 1},
                           {2, 2},
                           {7, 7},
                           {6, 8},
                           {1, 6},
                           {5, 3},
                           {3, 5},
                           {4, 4},
                           {0, 0},
                           {0, 0}},
                          2};
};

// Share 0.4 of five pages: two representatives. The base keeps page 2; pages 1, 3, 4 are
// candidates, and of three sorted ones the ends stay, so the middle one goes.
TEST_F(KvCrushDecode, TwoRepresentatives) {
  // Distances of 1, 3, 4 to 0000: 1, 2, 1. Sorted 1, 4, 3.
  EXPECT_EQ(Drop(0.4F, CrushAnchor::kZeros), 4U);
  // To 1111: 3, 2, 3. Sorted 3, 1, 4.
  EXPECT_EQ(Drop(0.4F, CrushAnchor::kOnes), 1U);
  // To 0101: 3, 2, 1. Sorted 4, 3, 1.
  EXPECT_EQ(Drop(0.4F, CrushAnchor::kAlternating), 3U);
  // The candidates' columns have means 1/3, 2/3, 1/3, 0, so the anchor is 0100: 2, 1, 0. Sorted 4,
  // 3, 1.
  EXPECT_EQ(Drop(0.4F, CrushAnchor::kMean), 3U);
}

// Share 0.2: the nearer of the two lowest pages, 1 and 3, stays as the one representative.
TEST_F(KvCrushDecode, OneRepresentative) {
  EXPECT_EQ(Drop(0.2F, CrushAnchor::kZeros), 3U);
  EXPECT_EQ(Drop(0.2F, CrushAnchor::kOnes), 1U);
}

TEST_F(KvCrushDecode, NoRepresentativeIsTheBase) {
  EXPECT_EQ(Drop(0.0F, CrushAnchor::kZeros), 1U);
  EXPECT_EQ(Drop(0.19F, CrushAnchor::kOnes), 1U);
}

TEST_F(KvCrushDecode, PrefillOnlyIsTheBase) {
  const auto policy = MakePolicy(KvCrushSpec{.options = {.share = 0.4F, .prefill_only = true}});
  EXPECT_EQ(policy->SelectDecode(table_.view(), MakeLimits(10, 2, 2)).value(), 1U);
}

// More representatives than pages may be chosen from: one goes all the same.
TEST_F(KvCrushDecode, AllRepresentatives) {
  // Distances of 1, 2, 3, 4 to 0000: 1, 4, 2, 1. Sorted 1, 4, 3, 2. Three of four are entries 0,
  // 1, 3.
  EXPECT_EQ(Drop(0.99F, CrushAnchor::kZeros), 3U);
}

TEST(KvCrush, TheRandomAnchorIsTheTopBitsOfSplitMix) {
  // Reference values of SplitMix64 with seed 1234567.
  SplitMix64 random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317U);
  EXPECT_EQ(random.Next(), 3203168211198807973U);

  // Four tokens that two heads rank 11, 10, 01, 00; one representative of three candidates.
  const ScoreTable table({{4, 4}, {3, 1}, {1, 3}, {0, 0}}, 1);
  std::map<std::vector<uint32_t>, int> chosen;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    const auto policy = Crush(0.5F, CrushAnchor::kRandom, seed);
    const auto keep = Values(policy->SelectPrefill(table.view(), MakeLimits(2, 0, 0)));
    EXPECT_EQ(keep, Values(policy->SelectPrefill(table.view(), MakeLimits(2, 0, 0))));
    SplitMix64 bits(seed);
    const bool first = bits.Next() >> 63 != 0;
    const bool second = bits.Next() >> 63 != 0;
    // The candidates are 10, 01 and 00; the nearest to the anchor, of equal ones the older.
    const uint32_t nearest = first ? 1 : second ? 2 : 3;
    EXPECT_THAT(keep, ElementsAre(0, nearest)) << seed;
    ++chosen[keep];
  }
  EXPECT_EQ(chosen.size(), 3U);
}

TEST(Signatures, CountWhatDiffers) {
  Signatures all(2, 130);
  Signatures anchor(1, 130);
  for (const uint32_t bit : {0U, 63U, 64U, 129U}) all.Set(1, bit);
  anchor.Set(0, 64);
  EXPECT_EQ(all.Distance(0, anchor), 1U);
  EXPECT_EQ(all.Distance(1, anchor), 3U);
  EXPECT_TRUE(all.Get(1, 129));
  EXPECT_FALSE(all.Get(0, 129));
}

// Random scores, many of them equal, some no number: the upper half of a stable sort.
TEST(RankSignatures, AgreesWithAFullSort) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (int round = 0; round < 400; ++round) {
    const uint32_t tokens = 1 + random() % 90;
    const uint32_t heads = 1 + random() % 4;
    const float spread = round % 3 == 0 ? 1e30F : round % 3 == 1 ? 3.0F : 1e-3F;
    std::vector<std::vector<float>> rows(tokens, std::vector<float>(heads));
    for (auto& row : rows) {
      for (float& score : row) {
        const float value = spread * static_cast<float>(static_cast<int>(random() % 9) - 4);
        const uint32_t kind = random() % 40;
        score = kind == 0 ? kInf : kind == 1 ? -kInf : kind == 2 ? NAN : value;
      }
    }
    const ScoreTable table(rows, 4);
    HeadOrder ranks;
    ranks.Append(table.view(), 0, tokens);
    std::vector<uint32_t> all(tokens);
    std::iota(all.begin(), all.end(), 0);
    const Signatures got = RankSignatures(ranks, {0, tokens, 1, all});
    for (uint32_t head = 0; head < heads; ++head) {
      std::vector<std::pair<float, uint32_t>> order;
      for (uint32_t slot = 0; slot < tokens; ++slot) {
        order.emplace_back(std::isnan(rows[slot][head]) ? -kInf : rows[slot][head], slot);
      }
      std::sort(order.rbegin(), order.rend());
      for (uint32_t i = 0; i < tokens; ++i) {
        EXPECT_EQ(got.Get(order[i].second, head), i < tokens / 2) << "round " << round;
      }
    }
  }
}

TEST(EvenlySpaced, TakesBothEnds) {
  const std::vector<uint32_t> ten = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_THAT(EvenlySpaced(ten, 0), ElementsAre());
  EXPECT_THAT(EvenlySpaced(ten, 1), ElementsAre(0));
  EXPECT_THAT(EvenlySpaced(ten, 2), ElementsAre(0, 9));
  EXPECT_THAT(EvenlySpaced(ten, 4), ElementsAre(0, 3, 6, 9));
  EXPECT_EQ(EvenlySpaced(ten, 10), ten);
}

TEST(KvCrushOracle, PrefillAgreesExactly) {
  std::ifstream file(FOLIO_ORACLE_DIR "/policies.json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  int compared = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const nlohmann::json& c = cases[i];
    const ScoreTable table(c["scores"].get<std::vector<std::vector<float>>>(), 16);
    for (const nlohmann::json& crush : c["kv_crush"]) {
      SCOPED_TRACE(absl::StrCat("case ", i, " anchor ", crush["anchor"].get<std::string>()));
      const auto policy = Crush(crush["share"], kAnchors.at(crush["anchor"]));
      const Limits limits = MakeLimits(c["budget"].get<uint32_t>(), 16, 16);
      EXPECT_EQ(Values(policy->SelectPrefill(table.view(), limits)),
                crush["keep"].get<std::vector<uint32_t>>());
      ++compared;
    }
  }
  EXPECT_GE(compared, 96);
}

}  // namespace
}  // namespace folio::policy
