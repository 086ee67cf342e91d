// The choice between FlashInfer's kernels for prompts, by the measurements that it was made from.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/attention/choice.h"

namespace folio::kernels::cuda::attention {
namespace {

constexpr AttentionShape kShape{32, 8, 128};
constexpr uint32_t kProcessors = 132;

struct Prompt {
  int32_t rows, before;
};

struct Lengths {
  explicit Lengths(const std::vector<Prompt>& runs) {
    for (const auto& [rows, before] : runs) {
      row_starts.push_back(row_starts.back() + rows);
      contexts.push_back(before + rows);
    }
  }
  AttentionWork work() const { return {row_starts, contexts}; }

  std::vector<int32_t> row_starts{0}, contexts;
};

bool Faster(const std::vector<Prompt>& runs, const AttentionShape& shape = kShape) {
  return HopperIsFaster(Lengths(runs).work(), shape, kProcessors);
}

std::vector<Prompt> Times(size_t count, const Prompt& prompt) {
  return std::vector<Prompt>(count, prompt);
}

TEST(AttentionChoice, PromptsOfManyRowsTakeHopper) {
  EXPECT_TRUE(Faster({{8192, 0}}));
  EXPECT_TRUE(Faster(Times(8, {1024, 0})));
  EXPECT_TRUE(Faster({{2048, 6144}}));
  EXPECT_TRUE(Faster(Times(32, {256, 0})));
  EXPECT_TRUE(Faster({{1024, 0}}));
  EXPECT_TRUE(Faster({{512, 7680}}));
}

TEST(AttentionChoice, FewRowsTakeFa2) {
  EXPECT_FALSE(Faster(Times(64, {128, 0})));
  EXPECT_FALSE(Faster({{128, 8064}}));
  EXPECT_FALSE(Faster({{17, 0}}));
  EXPECT_FALSE(Faster(Times(200, {1, 4000})));
  EXPECT_FALSE(Faster(Times(100, {40, 500})));
}

// A rank of four has a quarter of the heads, and so a quarter of the tiles.
TEST(AttentionChoice, FewHeadsTakeFa2) {
  EXPECT_TRUE(Faster({{512, 7680}}));
  EXPECT_FALSE(Faster({{512, 7680}}, {8, 2, 128}));
  EXPECT_TRUE(Faster({{8192, 0}}, {8, 2, 128}));
}

// A chunk of a prompt beside short ones, and the other way around.
TEST(AttentionChoice, TheMostOfThePartDecides) {
  std::vector<Prompt> mixed = Times(8, {20, 100});
  mixed.push_back({4096, 0});
  EXPECT_TRUE(Faster(mixed));
  mixed = Times(200, {20, 1000});
  mixed.push_back({512, 0});
  EXPECT_FALSE(Faster(mixed));
  // The longest tile, of one row, keeps the others waiting for nothing.
  EXPECT_TRUE(Faster({{4096, 0}, {1, 4000}}));
  EXPECT_FALSE(Faster({{1024, 0}, {1, 60000}}));
}

TEST(AttentionChoice, PlansFitTheirMemory) {
  const Lengths one({{8192, 0}});
  EXPECT_TRUE(HopperPlanFits(one.work(), kShape, kProcessors, size_t{1} << 20));
  EXPECT_TRUE(HopperPlanFits(one.work(), kShape, kProcessors, 60000));
  EXPECT_FALSE(HopperPlanFits(one.work(), kShape, kProcessors, 57344));  // the arrays alone
  const Lengths many(Times(4097, {1, 0}));
  EXPECT_FALSE(HopperPlanFits(many.work(), kShape, kProcessors, size_t{64} << 20));
}

}  // namespace
}  // namespace folio::kernels::cuda::attention
