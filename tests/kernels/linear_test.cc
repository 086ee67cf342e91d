// Matrix products of every fast family: parity with the plain family, and batch invariance.
#include <gtest/gtest.h>

#include <numbers>
#include <utility>

#include "tests/kernels/kernel_data.h"

namespace folio::kernels::cpu {
namespace {

constexpr uint32_t kSeed = 7;

class LinearTest : public testing::TestWithParam<std::string> {
 protected:
  LinearTest() : fast_(MakeFastOps(GetParam()).value()), plain_(MakePlainOps()) {
    EXPECT_EQ(fast_->name(), GetParam());
  }
  std::unique_ptr<CpuOps> fast_, plain_;
  Random random_{kSeed};
};

struct Shape {
  uint32_t rows, n, k;
};

const Shape kShapes[] = {
    {1, 576, 576},  {2, 960, 576},   {3, 33, 64},   {5, 17, 7},     {8, 1, 1},      {13, 50, 31},
    {31, 64, 96},   {33, 100, 65},   {97, 48, 30},  {200, 576, 64}, {1, 576, 1536}, {4, 5, 2},
    {100, 33, 129}, {130, 420, 160}, {15, 100, 96}, {64, 7, 32},    {70, 300, 2080}};

// All decode rows, all prompt rows, some of both.
std::vector<RowSplit> Splits(uint32_t rows) {
  return {{rows, 0}, {0, rows}, {rows / 2, rows - rows / 2}};
}

// Bound on what another order of summing in float32 may change: 2^-22 of the sum of magnitudes.
float Tolerance(const bf16* x, const bf16* w, uint32_t k) {
  float sum = 0;
  for (uint32_t i = 0; i < k; ++i) sum += std::fabs(x[i].ToFloat() * w[i].ToFloat());
  return 1e-6f + sum * 4e-6f;
}

TEST_P(LinearTest, EqualsPlain) {
  for (const Shape& s : kShapes) {
    for (const RowSplit& split : Splits(s.rows)) {
      const bool accumulate = random_() % 2 == 0;
      SCOPED_TRACE(testing::Message() << s.rows << " x " << s.n << " x " << s.k);
      auto weight = RandomBf16(random_, size_t{s.n} * s.k);
      const auto in = RandomBf16(random_, size_t{s.rows} * s.k);
      const auto start = RandomFloats(random_, size_t{s.rows} * s.n);
      ThreadPool pool(2);
      std::vector<float> got = start;
      std::vector<float> want = start;
      for (CpuOps* ops : {fast_.get(), plain_.get()}) {
        auto packed = ops->Pack(AsMatrix<const bf16>(weight, s.n, s.k));
        EXPECT_EQ(packed->n(), s.n);
        EXPECT_EQ(packed->k(), s.k);
        EXPECT_GE(packed->bytes(), size_t{s.n} * s.k * 2);
        ActivationBuffer x(*ops, s.rows, s.k, in.data());
        auto& out = ops == fast_.get() ? got : want;
        ops->Linear(pool, split, x.view(), *packed, AsMatrix<float>(out, s.rows, s.n), accumulate);
      }
      for (uint32_t r = 0; r < s.rows; ++r) {
        for (uint32_t c = 0; c < s.n; ++c) {
          ASSERT_NEAR(got[r * s.n + c], want[r * s.n + c],
                      Tolerance(&in[r * s.k], &weight[c * s.k], s.k))
              << r << "," << c;
        }
      }
    }
  }
}

TEST_P(LinearTest, WritesNothingOutsideItsColumns) {
  auto weight = RandomBf16(random_, 37 * 10);
  const auto in = RandomBf16(random_, 3 * 10);
  auto packed = fast_->Pack(AsMatrix<const bf16>(weight, 37, 10));
  ActivationBuffer x(*fast_, 3, 10, in.data());
  std::vector<float> out(3 * 50, 42.0f);
  ThreadPool pool(2);
  fast_->Linear(pool, {3, 0}, x.view(), *packed, {out.data(), 3, 37, 50}, false);
  for (int r = 0; r < 3; ++r) {
    for (int c = 37; c < 50; ++c) EXPECT_EQ(out[r * 50 + c], 42.0f);
  }
}

std::vector<std::pair<RowSplit, Activation>> WithActivations(const std::vector<RowSplit>& splits) {
  std::vector<std::pair<RowSplit, Activation>> pairs;
  for (const RowSplit& split : splits) {
    for (const Activation each : {Activation::kSilu, Activation::kGelu}) {
      pairs.emplace_back(split, each);
    }
  }
  return pairs;
}

// What the gate passes, by its definition. The gates are exactly those of the weights' rows.
TEST(Activations, AreWhatTheySay) {
  std::vector<std::unique_ptr<CpuOps>> families;
  families.push_back(MakePlainOps());
  for (const std::string& name : FastFamilies()) families.push_back(*MakeFastOps(name));
  std::vector<bf16> gate, up;
  for (int i = -60; i <= 60; ++i) {
    gate.push_back(bf16::Round(static_cast<float>(i) / (i % 2 == 0 ? 8.0f : 1.0f)));
    up.push_back(bf16::Round(1));
  }
  const std::vector<bf16> one = {bf16::Round(1)};
  ThreadPool pool(1);
  for (const auto& ops : families) {
    for (const Activation activation : {Activation::kSilu, Activation::kGelu}) {
      const auto packed = ops->PackGated(AsMatrix<const bf16>(gate, gate.size(), 1),
                                         AsMatrix<const bf16>(up, up.size(), 1), activation);
      ActivationBuffer x(*ops, 1, 1, one.data());
      ActivationBuffer out(*ops, 1, gate.size());
      ops->GatedLinear(pool, {1, 0}, x.view(), *packed, out.view());
      for (size_t i = 0; i < gate.size(); ++i) {
        const double g = gate[i].ToFloat();
        const double u = std::sqrt(2 / std::numbers::pi) * (g + 0.044715 * g * g * g);
        const double want =
            activation == Activation::kGelu ? g * (1 + std::tanh(u)) / 2 : g / (1 + std::exp(-g));
        EXPECT_NEAR(out.at(i), want, std::fabs(want) / 256 + 1e-6) << ops->name() << " of " << g;
      }
    }
  }
}

TEST_P(LinearTest, GatedEqualsPlain) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(testing::Message() << s.rows << " x " << s.n << " x " << s.k);
    auto gate = RandomBf16(random_, size_t{s.n} * s.k, 0.3f);
    auto up = RandomBf16(random_, size_t{s.n} * s.k, 0.3f);
    const auto in = RandomBf16(random_, size_t{s.rows} * s.k);
    ThreadPool pool(2);
    for (const auto& [split, activation] : WithActivations(Splits(s.rows))) {
      ActivationBuffer got(*fast_, s.rows, s.n);
      ActivationBuffer want(*plain_, s.rows, s.n);
      for (CpuOps* ops : {fast_.get(), plain_.get()}) {
        auto packed = ops->PackGated(AsMatrix<const bf16>(gate, s.n, s.k),
                                     AsMatrix<const bf16>(up, s.n, s.k), activation);
        ActivationBuffer x(*ops, s.rows, s.k, in.data());
        ops->GatedLinear(pool, split, x.view(), *packed, (ops == fast_.get() ? got : want).view());
      }
      for (size_t i = 0; i < size_t{s.rows} * s.n; ++i) {
        // Half a bf16 step, and the sums' own error times what the other factor makes of it.
        ASSERT_NEAR(got.at(i), want.at(i), std::fabs(want.at(i)) / 200 + 2e-4f) << i;
      }
    }
  }
}

// Every row computed alone by one thread, as a decode row and as a prompt row, then in batches of
// many sizes, at every place, with 1 to 3 threads: the same bits as alone in its kind.
void CheckCompany(const CpuOps& ops, Random& random, uint32_t n, uint32_t k) {
  const uint32_t most = 300;
  auto weight = RandomBf16(random, n * k);
  auto up = RandomBf16(random, n * k);
  const auto in = RandomBf16(random, most * k);
  auto packed = ops.Pack(AsMatrix<const bf16>(weight, n, k));
  auto gated = ops.PackGated(AsMatrix<const bf16>(weight, n, k), AsMatrix<const bf16>(up, n, k),
                             Activation::kGelu);
  const auto run = [&](int threads, uint32_t first, RowSplit split, std::vector<float>& out,
                       ActivationBuffer& gated_out) {
    ThreadPool pool(threads);
    const uint32_t rows = split.total();
    ActivationBuffer x(ops, rows, k, &in[size_t{first} * k]);
    ops.Linear(pool, split, x.view(), *packed, AsMatrix<float>(out, rows, n), false);
    ops.GatedLinear(pool, split, x.view(), *gated, gated_out.view());
  };
  struct Alone {
    std::vector<float> out;
    std::vector<uint8_t> gated;
  };
  std::vector<Alone> decode(most);
  std::vector<Alone> prompt(most);
  for (uint32_t r = 0; r < most; ++r) {
    for (auto* alone : {&decode[r], &prompt[r]}) {
      ActivationBuffer out(ops, 1, n);
      alone->out.resize(n);
      run(1, r, alone == &decode[r] ? RowSplit{1, 0} : RowSplit{0, 1}, alone->out, out);
      alone->gated = out.row_bytes(0);
    }
  }
  const RowSplit splits[] = {{2, 0},    {3, 1},   {5, 2},   {7, 0},  {8, 0},   {9, 4},
                             {12, 0},   {13, 0},  {16, 9},  {31, 0}, {32, 0},  {33, 0},
                             {20, 44},  {0, 96},  {0, 97},  {3, 94}, {1, 200}, {0, 11},
                             {10, 130}, {0, 128}, {1, 256}, {0, 300}};
  for (const RowSplit& split : splits) {
    for (int threads : {1, 2, 3}) {
      const uint32_t first = random() % (most - split.total() + 1);
      SCOPED_TRACE(testing::Message()
                   << split.total() << " rows from " << first << ", " << threads << " threads");
      std::vector<float> out(size_t{split.total()} * n);
      ActivationBuffer gated_out(ops, split.total(), n);
      run(threads, first, split, out, gated_out);
      for (uint32_t r = 0; r < split.total(); ++r) {
        const Alone& want = (r < split.decode_rows ? decode : prompt)[first + r];
        ASSERT_EQ(0, std::memcmp(&out[size_t{r} * n], want.out.data(), n * sizeof(float)));
        ASSERT_EQ(gated_out.row_bytes(r), want.gated);
      }
    }
  }
}

TEST_P(LinearTest, RowsDoNotDependOnTheirCompany) { CheckCompany(*fast_, random_, 420, 151); }
// Of whole 32s, as PromptGemm wants it.
TEST_P(LinearTest, RowsDoNotDependOnTheirCompanyByBlocks) {
  CheckCompany(*fast_, random_, 420, 160);
}
// More than AmxGemm adds up at a time.
TEST_P(LinearTest, RowsDoNotDependOnTheirCompanyWhereKComesInParts) {
  CheckCompany(*fast_, random_, 50, 1056);
}

TEST_P(LinearTest, NoRowsAreNoWork) {
  auto weight = RandomBf16(random_, 64 * 64);
  auto packed = fast_->Pack(AsMatrix<const bf16>(weight, 64, 64));
  ActivationBuffer x(*fast_, 0, 64);
  ThreadPool pool(2);
  float untouched = 1;
  fast_->Linear(pool, {0, 0}, x.view(), *packed, {&untouched, 0, 64, 64}, true);
  EXPECT_EQ(untouched, 1);
}

INSTANTIATE_TEST_SUITE_P(Families, LinearTest, testing::ValuesIn(FastFamilies()),
                         [](const auto& info) { return info.param; });

TEST(MakeFastOps, NamesWhatItDoesNotKnowOrCannotRun) {
  const auto unknown = MakeFastOps("mmx");
  ASSERT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.status().message().find("mmx"), std::string::npos);
  EXPECT_NE(unknown.status().message().find("portable"), std::string::npos);
  ASSERT_TRUE(MakeFastOps().ok());
  EXPECT_EQ((*MakeFastOps())->name(), FastFamilies().front());
}

}  // namespace
}  // namespace folio::kernels::cpu
