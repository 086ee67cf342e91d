// The plain loops give the same bits for every instruction set this CPU has, and for every way of
// grouping rows; and they are right.
#include "kernels/cpu/plain_loops.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace folio::kernels::cpu::plain {
namespace {

struct Operands {
  Operands(size_t rows, size_t outputs, size_t k, uint64_t seed)
      : rows(rows), outputs(outputs), k(k) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0, 1);
    for (size_t i = 0; i < rows * k; ++i) x.push_back(normal(random));
    for (size_t i = 0; i < outputs * k; ++i) w.push_back(bf16::Round(normal(random)));
  }
  Matrix<const float> in(size_t first, size_t count) const {
    return {x.data() + first * k, count, k, k};
  }
  Matrix<const bf16> weight() const { return {w.data(), outputs, k, k}; }

  size_t rows, outputs, k;
  std::vector<float> x;
  std::vector<bf16> w;
};

TEST(PlainLoops, DotsAreTheSameEverywhereAndRight) {
  for (const size_t k : {1, 15, 16, 24, 64, 100, 576}) {
    for (const size_t rows : {1, 2, 3, 4, 7, 9}) {
      const Operands op(rows, 11, k, 100 * k + rows);
      std::vector<float> alone(rows * 11);
      for (size_t r = 0; r < rows; ++r) {
        BestLoops().dots(op.in(r, 1), op.weight(), {&alone[r * 11], 1, 11, 11});
      }
      for (const Loops& loops : SupportedLoops()) {
        std::vector<float> out(rows * 11);
        loops.dots(op.in(0, rows), op.weight(), {out.data(), rows, 11, 11});
        EXPECT_EQ(out, alone) << loops.instruction_set << " k " << k << " rows " << rows;
      }
      for (size_t r = 0; r < rows; ++r) {
        for (size_t n = 0; n < 11; ++n) {
          double exact = 0;
          for (size_t i = 0; i < k; ++i)
            exact += double{op.x[r * k + i]} * op.w[n * k + i].ToFloat();
          EXPECT_NEAR(alone[r * 11 + n], exact, 1e-6 * double(k) + 1e-6);
        }
      }
    }
  }
}

TEST(PlainLoops, WeightedSumsAreTheSameEverywhereAndRight) {
  for (const size_t dim : {8, 16, 24, 64, 80}) {
    for (const size_t rows : {1, 3, 4, 8}) {
      constexpr size_t kTokens = 13;
      const Operands share(rows, 0, kTokens, 7 * dim + rows);
      const Operands value(0, kTokens, dim, 7 * dim + rows + 1);
      std::vector<float> alone(rows * dim, 0.5f);
      for (size_t r = 0; r < rows; ++r) {
        BestLoops().weighted_sums(share.in(r, 1), value.weight(), {&alone[r * dim], 1, dim, dim});
      }
      for (const Loops& loops : SupportedLoops()) {
        std::vector<float> out(rows * dim, 0.5f);
        loops.weighted_sums(share.in(0, rows), value.weight(), {out.data(), rows, dim, dim});
        EXPECT_EQ(out, alone) << loops.instruction_set << " dim " << dim << " rows " << rows;
      }
      for (size_t r = 0; r < rows; ++r) {
        for (size_t d = 0; d < dim; ++d) {
          double exact = 0.5;
          for (size_t t = 0; t < kTokens; ++t) {
            exact += double{share.x[r * kTokens + t]} * value.w[t * dim + d].ToFloat();
          }
          EXPECT_NEAR(alone[r * dim + d], exact, 1e-5);
        }
      }
    }
  }
}

TEST(PlainLoops, SumOfSquares) {
  for (const size_t count : {1, 16, 17, 64, 577}) {
    const Operands op(1, 0, count, count);
    double exact = 0;
    for (const float x : op.x) exact += double{x} * x;
    for (const Loops& loops : SupportedLoops()) {
      const float sum = loops.sum_of_squares(op.x.data(), count);
      EXPECT_EQ(sum, BestLoops().sum_of_squares(op.x.data(), count)) << loops.instruction_set;
      EXPECT_NEAR(sum, exact, 1e-6 * exact);
    }
  }
}

TEST(PlainLoops, Norms) {
  for (const size_t count : {1, 16, 17, 64, 577}) {
    const Operands op(3, 0, count, count);
    const float *x = op.x.data(), *weight = x + count, *to = weight + count;
    double mean = 0;
    for (size_t i = 0; i < count; ++i) mean += double{x[i]} * x[i] / double(count);
    for (const Loops& loops : SupportedLoops()) {
      SCOPED_TRACE(loops.instruction_set);
      std::vector<float> replaced(x, x + count), sum(to, to + count), best(x, x + count);
      loops.norm(replaced.data(), weight, 0.01f, count);
      loops.add_normed(x, weight, 0.01f, count, sum.data());
      BestLoops().norm(best.data(), weight, 0.01f, count);
      EXPECT_EQ(replaced, best);
      for (size_t i = 0; i < count; ++i) {
        EXPECT_NEAR(replaced[i], x[i] / std::sqrt(mean + 0.01) * weight[i], 1e-5);
        EXPECT_EQ(sum[i], to[i] + replaced[i]);
      }
    }
  }
}

}  // namespace
}  // namespace folio::kernels::cpu::plain
