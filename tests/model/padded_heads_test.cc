// Models whose heads got dimensions of zeros: what they hold, and that they say the same.
#include "services/model/source/padded_heads.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/quantized.h"
#include "tests/model/executor_harness.h"
#include "tests/model/source_reading.h"

namespace folio::model::testing {
namespace {

using kernels::bf16;
using ::testing::HasSubstr;

// Keys become twice as large, which changes no rounding.
constexpr uint32_t kHeadDim = 12;
constexpr uint32_t kPadded = 16 * kHeadDim;

ModelConfig Config(const std::string& family = "qwen2") {
  ModelConfig config = TinyConfig();
  config.head_dim = kHeadDim;
  return OfFamily(family, config);
}

std::unique_ptr<PaddedHeads> PaddedModel(const ModelConfig& config) {
  return std::make_unique<PaddedHeads>(std::make_unique<RandomModel>(config, 7), kPadded);
}

// The place in the padded model of a number of the model's heads. Both halves of a head grow.
uint32_t InPadded(uint32_t index) {
  const uint32_t at = index % kHeadDim;
  const uint32_t half = at / (kHeadDim / 2);
  return index / kHeadDim * kPadded + half * (kPadded / 2) + at % (kHeadDim / 2);
}

struct Said {
  std::vector<std::vector<float>> logprobs;     // after a prompt, and after each of some tokens
  std::vector<std::vector<float>> differences;  // of the prompt's keys, [layer][token][head]
};

Said Ask(const ModelSource& source) {
  TestPool pool(source.config(), 64);
  const auto executor = *MakeCpuExecutor(source, OpsNamed("plain"), 1, pool.view());
  const SequenceSlot slot = executor->tables().Acquire(kernels::ScoreKind::kUnrotatedDifference);
  const std::vector<std::vector<PageRef>> pages = pool.Take(4);
  executor->tables().Extend(slot, pages);
  const Tokens prompt = RandomTokens(37, source.config().vocab, 1);
  Said said;
  for (uint32_t at = 0; at < 10; ++at) {
    StepSegment segment;
    segment.slot = slot;
    segment.prompt = at == 0;
    if (at == 0) {
      for (const uint32_t token : prompt) segment.tokens.emplace_back(token);
    } else {
      segment.tokens.emplace_back(7 * at);
      segment.first_position = Position(36 + at);
    }
    segment.score_resident = at == 0;
    segment.want_output = true;
    segment.top_logprobs = static_cast<int>(source.config().vocab);
    StepBatch batch;
    batch.segments = {segment};
    said.logprobs.push_back(ByToken(executor->Collect(executor->Enqueue(batch)).outputs.at(0)));
  }
  for (const std::vector<PageRef>& layer : pages) {
    std::vector<float>& scores = said.differences.emplace_back();
    for (size_t token = 0; token < prompt.size(); ++token) {
      const float* row = pool.view().page_scores(layer[token / 16].page.value()) +
                         token % 16 * pool.view().score_stride();
      scores.insert(scores.end(), row, row + source.config().kv_heads);
    }
  }
  return said;
}

// The largest distance between `factor` * a and b.
float Farthest(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b,
               float factor = 1) {
  float farthest = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].size(), b[i].size());
    for (size_t j = 0; j < a[i].size(); ++j) {
      EXPECT_FALSE(std::isnan(a[i][j]));
      farthest = std::max(farthest, std::abs(factor * a[i][j] - b[i][j]));
    }
  }
  return farthest;
}

TEST(PaddedHeads, ZerosAreBehindEachHalfOfAHead) {
  const ModelConfig config = Config();
  const RandomModel model(config, 7);
  const auto padded = PaddedModel(config);
  EXPECT_EQ(padded->config().head_dim, kPadded);
  EXPECT_EQ(padded->config().rotary(), kHeadDim);
  for (const Role role : {Role::kQuery, Role::kKey, Role::kValue}) {
    const std::vector<bf16> stored = *model.ReadMatrix(role, 1);
    const std::vector<bf16> got = *padded->ReadMatrix(role, 1);
    const size_t rows = stored.size() / config.hidden;
    ASSERT_EQ(got.size(), rows / kHeadDim * kPadded * config.hidden);
    std::vector<bf16> want(got.size());
    for (uint32_t row = 0; row < rows; ++row) {
      std::copy_n(&stored[size_t{row} * config.hidden], config.hidden,
                  &want[size_t{InPadded(row)} * config.hidden]);
    }
    for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i].bits, want[i].bits) << i;
  }
  const std::vector<float> bias = *model.ReadVector(Role::kQueryBias, 1);
  std::vector<float> want(bias.size() / kHeadDim * kPadded);
  for (uint32_t row = 0; row < bias.size(); ++row) want[InPadded(row)] = bias[row];
  EXPECT_EQ(*padded->ReadVector(Role::kQueryBias, 1), want);
  EXPECT_EQ(*padded->ReadVector(Role::kFinalNorm, 0), *model.ReadVector(Role::kFinalNorm, 0));
}

TEST(PaddedHeads, ColumnsOfTheOutputProjectionFollow) {
  const ModelConfig config = Config();
  const std::vector<bf16> stored = *RandomModel(config, 7).ReadMatrix(Role::kAttentionOut, 0);
  const std::vector<bf16> got = *PaddedModel(config)->ReadMatrix(Role::kAttentionOut, 0);
  const uint32_t cols = config.heads * kHeadDim;
  const uint32_t all = config.heads * kPadded;
  ASSERT_EQ(got.size(), size_t{config.hidden} * all);
  std::vector<bf16> want(got.size());
  for (size_t row = 0; row < config.hidden; ++row) {
    for (uint32_t col = 0; col < cols; ++col) {
      want[row * all + InPadded(col)] = stored[row * cols + col];
    }
  }
  for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i].bits, want[i].bits) << i;
}

// Rotation of all and of a part of each head, biases, layers without rotation and other scores.
TEST(PaddedHeads, ItSaysWhatTheModelSays) {
  for (const std::string family : {"llama", "qwen2", "smollm3", "granite"}) {
    for (const uint32_t rotary : {0u, 8u}) {
      SCOPED_TRACE(family + " " + std::to_string(rotary));
      ModelConfig config = Config(family);
      config.rotary_dim = rotary;
      if (family == "granite") config.query_gain = 1.5f;
      const Said said = Ask(RandomModel(config, 7));
      const Said padded = Ask(*PaddedModel(config));
      EXPECT_LT(Farthest(padded.logprobs, said.logprobs), 1e-3f);
      // Angles have the factor of keys, so that each difference has it too.
      EXPECT_LT(Farthest(padded.differences, said.differences, 0.5f), 1e-5f);
      ModelConfig other = config;
      other.query_gain *= 1.1f;
      EXPECT_GT(Farthest(Ask(RandomModel(other, 7)).logprobs, said.logprobs), 0.1f);
    }
  }
}

TEST(PaddedHeads, NormsOfHeadsAreNotServed) {
  EXPECT_TRUE(PaddedHeads::Serves(Config()));
  EXPECT_FALSE(PaddedHeads::Serves(Config("qwen3")));
}

TEST(PaddedHeads, CodesKeepTheirScales) {
  const ModelConfig config = Config();
  const auto padded = PaddedModel(config);
  for (const Role role : {Role::kKey, Role::kAttentionOut, Role::kDown}) {
    const ScaledMatrix stored = *RandomModel(config, 7).ReadScaled(role, 1);
    const ScaledMatrix got = *padded->ReadScaled(role, 1);
    const bool in_rows = role == Role::kKey;
    const auto in_cols = [role](size_t col) {
      return role == Role::kAttentionOut ? InPadded(static_cast<uint32_t>(col)) : col;
    };
    const size_t cols = stored.codes.size() / stored.scales.size();
    const size_t all = got.codes.size() / got.scales.size();
    EXPECT_EQ(got.scales.size(), InfoOf(role).rows == Extent::kKeys ? config.kv_heads * kPadded
                                                                    : stored.scales.size());
    size_t others = got.codes.size();
    for (size_t row = 0; row < stored.scales.size(); ++row) {
      const size_t to = in_rows ? InPadded(static_cast<uint32_t>(row)) : row;
      ASSERT_EQ(got.scales[to], stored.scales[row]);
      for (size_t col = 0; col < cols; ++col, --others) {
        ASSERT_EQ(got.codes[to * all + in_cols(col)].bits, stored.codes[row * cols + col].bits);
      }
    }
    const auto zeros = std::count_if(got.codes.begin(), got.codes.end(),
                                     [](kernels::e4m3 code) { return code.bits == 0; });
    EXPECT_GE(static_cast<size_t>(zeros), others);
    for (const float scale : got.scales) EXPECT_GT(scale, 0);
  }
}

TEST(PaddedHeads, RowsStayQuantised) {
  using ::folio::testing::TinyModel;
  const TinyModel model({.heads = 8, .head_dim = kHeadDim});
  auto opened = OpenGguf(model.Gguf(StorageType::kQ8_0));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const PaddedHeads padded(*std::move(opened), kPadded);
  for (const Role role : {Role::kQuery, Role::kValue, Role::kGate}) {
    const auto matrix = *padded.ReadQuantized(role, 1);
    ASSERT_NE(matrix, nullptr);
    const std::vector<bf16> want = *padded.ReadMatrix(role, 1);
    ASSERT_EQ(size_t{matrix->n()} * matrix->k(), want.size());
    kernels::QuantizedRow row(matrix->format(), matrix->k());
    std::vector<float> values(matrix->k());
    for (uint32_t r = 0; r < matrix->n(); ++r) {
      matrix->Read(r, row);
      kernels::Dequantize(matrix->format(), row, absl::MakeSpan(values));
      for (uint32_t i = 0; i < matrix->k(); ++i) {
        ASSERT_EQ(bf16::Round(values[i]).ToFloat(), want[size_t{r} * matrix->k() + i].ToFloat());
      }
    }
  }
  const auto out = padded.ReadQuantized(Role::kAttentionOut, 1);
  EXPECT_TRUE(absl::IsUnimplemented(out.status()));
  EXPECT_THAT(out.status().message(), HasSubstr("padded"));
}

}  // namespace
}  // namespace folio::model::testing
