// Products with quantised weights of every fast family and format: parity with the plain twin, with
// the values that formats stand for, and batch invariance.
#include "kernels/quantized.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/kernels/kernel_data.h"
#include "tests/kernels/quantized_data.h"

namespace folio::kernels::cpu {
namespace {

class QuantizedTest : public testing::TestWithParam<std::string> {
 protected:
  QuantizedTest() : fast_(MakeFastOps(GetParam()).value()), plain_(MakePlainOps()) {}

  std::unique_ptr<CpuOps> fast_, plain_;
  Random random_{11};
};

struct Shape {
  uint32_t rows, n, k;
};

const Shape kShapes[] = {{1, 96, 512},  {2, 33, 256},    {3, 17, 768},   {4, 1, 256},
                         {5, 50, 512},  {6, 7, 256},     {7, 100, 256},  {8, 48, 512},
                         {9, 31, 256},  {11, 5, 768},    {16, 64, 256},  {33, 20, 512},
                         {70, 65, 256}, {130, 420, 256}, {37, 100, 1280}};

// Sums of magnitudes times what float32 may lose in them.
float Tolerance(const bf16* x, const float* w, uint32_t k) {
  float sum = 0;
  for (uint32_t i = 0; i < k; ++i) sum += std::fabs(x[i].ToFloat() * w[i]);
  return 1e-5f + sum * 4e-6f;
}

// The product of decode rows by `ops`, [rows, n].
std::vector<float> Multiply(const CpuOps& ops, const PackedWeights& weight, RowSplit split,
                            const std::vector<bf16>& in, int threads = 2) {
  ThreadPool pool(threads);
  std::vector<float> out(size_t{split.total()} * weight.n());
  ActivationBuffer x(ops, split.total(), weight.k(), in.data());
  ops.Linear(pool, split, x.view(), weight, AsMatrix<float>(out, split.total(), weight.n()), false);
  return out;
}

TEST_P(QuantizedTest, DecodeRowsEqualPlain) {
  for (const QuantizedFormat& format : kQuantizedFormats) {
    SCOPED_TRACE(FormatText(format));
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.rows << " x " << s.n << " x " << s.k);
      const RandomQuantized matrix(random_, format, s.n, s.k);
      const std::vector<float> values = matrix.Values();
      const auto in = RandomBf16(random_, size_t{s.rows} * s.k);
      const auto packed = fast_->PackQuantized({&matrix});
      EXPECT_EQ(packed->n(), s.n);
      EXPECT_EQ(packed->k(), s.k);
      const auto got = Multiply(*fast_, *packed, {s.rows, 0}, in);
      const auto want = Multiply(*plain_, *plain_->PackQuantized({&matrix}), {s.rows, 0}, in);
      for (uint32_t r = 0; r < s.rows; ++r) {
        for (uint32_t c = 0; c < s.n; ++c) {
          ASSERT_NEAR(got[r * s.n + c], want[r * s.n + c],
                      Tolerance(&in[r * s.k], &values[c * s.k], s.k))
              << r << "," << c;
        }
      }
    }
  }
}

// The plain twin against the definition in double precision: what is lost is the rounding of
// activations to 127 steps, half a step for each at most.
TEST_P(QuantizedTest, PlainTwinIsNearTheValues) {
  for (const QuantizedFormat& format : kQuantizedFormats) {
    SCOPED_TRACE(FormatText(format));
    const uint32_t n = 9;
    const uint32_t k = 512;
    const RandomQuantized matrix(random_, format, n, k);
    const std::vector<float> values = matrix.Values();
    const auto in = RandomBf16(random_, k);
    const auto got = Multiply(*plain_, *plain_->PackQuantized({&matrix}), {1, 0}, in);
    for (uint32_t c = 0; c < n; ++c) {
      double exact = 0;
      double bound = 1e-4;
      for (uint32_t i = 0; i < k; ++i) {
        float largest = 0;
        for (uint32_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) {
          largest = std::max(largest, std::fabs(in[j].ToFloat()));
        }
        exact += double{in[i].ToFloat()} * values[c * k + i];
        bound += double{largest} / 127 * 0.5001 * std::fabs(values[c * k + i]);
      }
      ASSERT_NEAR(got[c], exact, bound) << c;
    }
  }
}

// Prompt rows are those of the weights rounded to bf16, to the bit, or those of decode rows.
TEST_P(QuantizedTest, PromptRowsAreOneOfTwoKinds) {
  for (const QuantizedFormat& format : kQuantizedFormats) {
    SCOPED_TRACE(FormatText(format));
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.rows << " x " << s.n << " x " << s.k);
      const RandomQuantized matrix(random_, format, s.n, s.k);
      auto rounded = matrix.Rounded();
      const auto in = RandomBf16(random_, size_t{s.rows} * s.k);
      const auto packed = fast_->PackQuantized({&matrix});
      const auto bf16_weights = fast_->Pack(AsMatrix<const bf16>(rounded, s.n, s.k));
      const auto got = Multiply(*fast_, *packed, {0, s.rows}, in);
      const bool as_bf16 = got == Multiply(*fast_, *bf16_weights, {0, s.rows}, in);
      EXPECT_TRUE(as_bf16 || got == Multiply(*fast_, *packed, {s.rows, 0}, in));
      EXPECT_EQ(as_bf16, GetParam() == "avx512_amx" || GetParam() == "avx512_bf16");
    }
  }
}

// Parts of several formats and odd heights, with rows of both kinds, as one product.
TEST_P(QuantizedTest, PartsLieBelowOneAnother) {
  const uint32_t k = 512;
  const RandomQuantized first(random_, kQuantizedFormats[6], 40, k);
  const RandomQuantized second(random_, kQuantizedFormats[8], 7, k);
  const RandomQuantized third(random_, kQuantizedFormats[4], 33, k);
  const std::vector<const QuantizedMatrix*> parts = {&first, &second, &third};
  const auto together = fast_->PackQuantized(parts);
  ASSERT_EQ(together->n(), 80u);
  for (const RowSplit& split : {RowSplit{3, 0}, RowSplit{0, 20}, RowSplit{5, 150}}) {
    const auto in = RandomBf16(random_, size_t{split.total()} * k);
    const auto got = Multiply(*fast_, *together, split, in);
    uint32_t column = 0;
    for (const QuantizedMatrix* part : parts) {
      const auto want = Multiply(*fast_, *fast_->PackQuantized({part}), split, in);
      for (uint32_t r = 0; r < split.total(); ++r) {
        ASSERT_EQ(0, std::memcmp(&got[r * 80 + column], &want[r * part->n()], part->n() * 4));
      }
      column += part->n();
    }
  }
}

TEST_P(QuantizedTest, GatedEqualsPlain) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(testing::Message() << s.rows << " x " << s.n << " x " << s.k);
    const RandomQuantized gate(random_, kQuantizedFormats[random_() % 10], s.n, s.k);
    const RandomQuantized up(random_, kQuantizedFormats[random_() % 10], s.n, s.k);
    const Activation activation = random_() % 2 == 0 ? Activation::kSilu : Activation::kGelu;
    const auto in = RandomBf16(random_, size_t{s.rows} * s.k, 0.02f);
    ThreadPool pool(2);
    ActivationBuffer got(*fast_, s.rows, s.n);
    ActivationBuffer want(*plain_, s.rows, s.n);
    for (CpuOps* ops : {fast_.get(), plain_.get()}) {
      const auto packed = ops->PackGatedQuantized(gate, up, activation);
      ActivationBuffer x(*ops, s.rows, s.k, in.data());
      ops->GatedLinear(pool, {s.rows, 0}, x.view(), *packed,
                       (ops == fast_.get() ? got : want).view());
    }
    for (size_t i = 0; i < size_t{s.rows} * s.n; ++i) {
      ASSERT_NEAR(got.at(i), want.at(i), std::fabs(want.at(i)) / 200 + 2e-3f) << i;
    }
  }
}

TEST_P(QuantizedTest, LookupGivesTheValues) {
  const uint32_t k = 768;
  for (const QuantizedFormat& format : kQuantizedFormats) {
    SCOPED_TRACE(FormatText(format));
    const RandomQuantized matrix(random_, format, 37, k);
    const std::vector<float> values = matrix.Values();
    const std::vector<uint32_t> ids = {36, 0, 17, 17, 31, 32};
    for (const CpuOps* ops : {fast_.get(), plain_.get()}) {
      std::vector<float> out(ids.size() * k);
      ThreadPool pool(2);
      ops->Lookup(pool, *ops->PackQuantized({&matrix}), ids, AsMatrix<float>(out, ids.size(), k));
      for (size_t r = 0; r < ids.size(); ++r) {
        ASSERT_EQ(0, std::memcmp(&out[r * k], &values[ids[r] * k], k * sizeof(float))) << r;
      }
    }
  }
}

// Every row in batches of many sizes, at every place, with 1 to 3 threads: the bits it has alone.
TEST_P(QuantizedTest, RowsDoNotDependOnTheirCompany) {
  const uint32_t n = 100;
  const uint32_t k = 512;
  const uint32_t most = 150;
  const auto in = RandomBf16(random_, size_t{most} * k);
  for (const QuantizedFormat& format : kQuantizedFormats) {
    SCOPED_TRACE(FormatText(format));
    const RandomQuantized matrix(random_, format, n, k);
    const auto packed = fast_->PackQuantized({&matrix});
    const auto rows = [&](uint32_t first, uint32_t count) {
      return std::vector<bf16>(in.begin() + first * k, in.begin() + (first + count) * k);
    };
    std::vector<float> decode;
    std::vector<float> prompt;
    for (uint32_t r = 0; r < most; ++r) {
      const auto d = Multiply(*fast_, *packed, {1, 0}, rows(r, 1), 1);
      const auto p = Multiply(*fast_, *packed, {0, 1}, rows(r, 1), 1);
      decode.insert(decode.end(), d.begin(), d.end());
      prompt.insert(prompt.end(), p.begin(), p.end());
    }
    for (const RowSplit& split :
         {RowSplit{2, 0}, RowSplit{3, 1}, RowSplit{7, 0}, RowSplit{8, 5}, RowSplit{13, 0},
          RowSplit{16, 9}, RowSplit{33, 0}, RowSplit{65, 0}, RowSplit{1, 140}, RowSplit{0, 97},
          RowSplit{129, 2}}) {
      const int threads = 1 + static_cast<int>(random_() % 3);
      const uint32_t first = random_() % (most - split.total() + 1);
      const auto got = Multiply(*fast_, *packed, split, rows(first, split.total()), threads);
      for (uint32_t r = 0; r < split.total(); ++r) {
        const auto& want = r < split.decode_rows ? decode : prompt;
        ASSERT_EQ(0, std::memcmp(&got[r * n], &want[(first + r) * n], n * sizeof(float)))
            << r << " of " << split.decode_rows << " + " << split.prompt_rows;
      }
    }
  }
}

TEST_P(QuantizedTest, ActivationsThatAreNotFiniteShow) {
  const RandomQuantized matrix(random_, kQuantizedFormats[6], 20, 256);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const uint32_t place : {0u, 40u, 255u}) {
      auto in = RandomBf16(random_, 2 * 256);
      in[place] = bf16::Round(bad);
      for (const CpuOps* ops : {fast_.get(), plain_.get()}) {
        const auto out = Multiply(*ops, *ops->PackQuantized({&matrix}), {2, 0}, in);
        for (uint32_t c = 0; c < 20; ++c) {
          EXPECT_TRUE(std::isnan(out[c]));
          EXPECT_TRUE(std::isfinite(out[20 + c]));
        }
      }
    }
  }
}

TEST_P(QuantizedTest, VanishingActivationsAreZero) {
  const RandomQuantized matrix(random_, kQuantizedFormats[8], 20, 256);
  const std::vector<bf16> in(256, bf16::Round(1e-38f));
  for (const CpuOps* ops : {fast_.get(), plain_.get()}) {
    for (const float x : Multiply(*ops, *ops->PackQuantized({&matrix}), {1, 0}, in)) {
      EXPECT_EQ(x, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, QuantizedTest, testing::ValuesIn(FastFamilies()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace folio::kernels::cpu
