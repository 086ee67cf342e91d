// This header is shared by the tests of scores. It has slots by sequence, and the families with the
// plain one.
#ifndef FOLIO_TESTS_KERNELS_SCORE_DATA_H_
#define FOLIO_TESTS_KERNELS_SCORE_DATA_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/kernel_data.h"

namespace folio::kernels::cpu {

constexpr float kUntouched = -1;  // RandomPool's scores

struct ScoreShape {
  uint32_t kv_heads, group, head_dim, page_tokens;
};
inline const ScoreShape kScoreShapes[] = {{3, 3, 64, 16}, {1, 1, 64, 16},  {2, 4, 128, 16},
                                          {1, 8, 64, 16}, {2, 2, 32, 16},  {1, 7, 80, 16},
                                          {1, 5, 16, 8},  {1, 6, 128, 32}, {1, 3, 96, 16},
                                          {2, 3, 24, 16}, {1, 2, 256, 16}};

struct Tokens {
  std::vector<uint32_t> table;
  uint32_t count;
};

// The last rows of a prompt of `tokens.count`.
struct PromptWindow {
  Tokens tokens;
  uint32_t rows;
  uint32_t neighbours = 3;
  uint32_t channel = 0;
};

// Angles of a head of `dim`, as a model with theta 10,000 has them.
struct Angles {
  Angles(uint32_t dim, uint32_t positions) : positions(positions) {
    for (uint32_t p = 0; p < positions; ++p) {
      for (uint32_t i = 0; i < dim / 2; ++i) {
        const double angle = p * std::pow(10000.0, -2.0 * i / dim);
        cos.push_back(static_cast<float>(std::cos(angle)));
        sin.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }
  RopeTable table() const { return {cos.data(), sin.data(), positions}; }

  uint32_t positions;
  std::vector<float> cos, sin;
};

inline bf16* KeyAt(RandomPool& pages, const Tokens& tokens, uint32_t head, uint32_t slot) {
  const CacheGeometry& g = pages.geometry;
  return pages.view().keys(tokens.table[slot / g.page_tokens]) +
         (size_t{head} * g.page_tokens + slot % g.page_tokens) * g.head_dim;
}

inline float& ScoreAt(RandomPool& pages, const Tokens& tokens, uint32_t head, uint32_t slot,
                      uint32_t channel = 0) {
  const CacheGeometry& g = pages.geometry;
  const uint32_t page = tokens.table[slot / g.page_tokens];
  return pages.view().page_scores(page, channel)[slot % g.page_tokens * g.num_kv_heads + head];
}

// Positions of all slots that the table's pages have.
inline std::vector<float> Board(RandomPool& pages, const Tokens& tokens, uint32_t channel = 0) {
  std::vector<float> scores;
  for (uint32_t slot = 0; slot < tokens.table.size() * pages.geometry.page_tokens; ++slot) {
    for (uint32_t head = 0; head < pages.geometry.num_kv_heads; ++head) {
      scores.push_back(ScoreAt(pages, tokens, head, slot, channel));
    }
  }
  return scores;
}

// Values behind the tokens become NaN.
inline void SpoilRest(RandomPool& pages, const Tokens& tokens) {
  const uint32_t end = static_cast<uint32_t>(tokens.table.size()) * pages.geometry.page_tokens;
  for (uint32_t slot = tokens.count; slot < end; ++slot) {
    for (uint32_t head = 0; head < pages.geometry.num_kv_heads; ++head) {
      std::fill_n(KeyAt(pages, tokens, head, slot), pages.geometry.head_dim, bf16{0x7fc0});
    }
  }
}

// A test by the name of a family, with its operations and the plain ones.
class ScoresTest : public testing::TestWithParam<std::string> {
 protected:
  ScoresTest()
      : ops_(plain() ? MakePlainOps() : MakeFastOps(GetParam()).value()),
        reference_(MakePlainOps()) {}
  static bool plain() { return GetParam() == "plain"; }

  std::unique_ptr<CpuOps> ops_, reference_;
  Random random_{31};
};

inline std::vector<std::string> AllFamilies() {
  std::vector<std::string> names = FastFamilies();
  names.push_back("plain");
  return names;
}

inline std::string FamilyName(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace folio::kernels::cpu

#endif  // FOLIO_TESTS_KERNELS_SCORE_DATA_H_
