// Sampling against the CPU's sampler: the same tokens from the same seeds, whatever the filters.
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "kernels/cuda/ops/sampling.h"
#include "services/model/executor/logit_edits.h"
#include "services/model/executor/sampler.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

struct Sampled {
  std::vector<SampledToken> tokens;
  std::vector<TopLogprob> top;  // [rows, max_top]
};

// `logits` [rows, vocab], with a stride of vocab + `gap`.
Sampled SampleAll(const std::vector<float>& logits, uint32_t vocab,
                  const std::vector<SampleRow>& rows, uint32_t max_top = 0, uint32_t gap = 0) {
  std::vector<float> spread(rows.size() * size_t{vocab + gap}, std::nanf(""));
  for (size_t i = 0; i < rows.size() * vocab; ++i) {
    spread[i / vocab * (vocab + gap) + i % vocab] = logits[i];
  }
  const OnDevice<float> in(spread);
  const OnDevice<SampleRow> device_rows(rows);
  const OnDevice<SampledToken> out{std::vector<SampledToken>(rows.size())};
  const OnDevice<TopLogprob> top{std::vector<TopLogprob>(rows.size() * max_top)};
  const absl::Status status =
      Sample(nullptr,
             {in.data(), DataType::kFloat32, static_cast<uint32_t>(rows.size()), vocab,
              size_t{vocab} + gap},
             device_rows.array(), out.data(), top.data(), max_top);
  EXPECT_TRUE(status.ok()) << status;
  return {out.Read(), top.Read()};
}

// The token that the CPU samples.
uint32_t OnCpu(const float* logits, uint32_t vocab, const SampleRow& row) {
  const SamplingRecord sampling{row.temperature, row.top_k, row.top_p, row.min_p, row.seed};
  return model::Sample({logits, vocab}, sampling, Position(row.position)).value();
}

class GpuSampleTest : public testing::Test {
 protected:
  // Rows of logits as models give them, some of them equal.
  std::vector<float> Logits(uint32_t rows, uint32_t vocab) {
    std::vector<float> logits = RandomFloats(random_, size_t{rows} * vocab, 3.0f);
    for (float& x : logits) x = std::nearbyint(x * 16) / 16;
    for (size_t i = 0; i < logits.size(); i += 97) logits[i] = i % 2 == 0 ? 0.0f : -0.0f;
    return logits;
  }
  SampleRow Row(float temperature, uint32_t top_k, float top_p, float min_p) {
    SampleRow row;
    row.seed = (uint64_t{random_()} << 32) | random_();
    row.temperature = temperature;
    row.top_k = top_k;
    row.top_p = top_p;
    row.min_p = min_p;
    row.position = random_() % 10000;
    return row;
  }
  void ExpectAsOnCpu(const std::vector<float>& logits, uint32_t vocab,
                     const std::vector<SampleRow>& rows) {
    const Sampled got = SampleAll(logits, vocab, rows, 0, 5);
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(got.tokens[i].finite, 1);
      ASSERT_EQ(got.tokens[i].token, OnCpu(&logits[i * vocab], vocab, rows[i]))
          << "row " << i << " of " << vocab << ", temperature " << rows[i].temperature << ", top_k "
          << rows[i].top_k << ", top_p " << rows[i].top_p << ", min_p " << rows[i].min_p;
    }
  }

  // Edits of different tokens.
  std::vector<model::LogitEdit> RandomEdits(uint32_t count, uint32_t vocab) {
    std::vector<model::LogitEdit> edits;
    const uint32_t step = std::max(vocab / std::max(count, 1u), 1u);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t in_answer = random_() % 2 == 0 ? 1 + random_() % 5 : 0;
      edits.push_back({TokenId(i * step), in_answer, in_answer > 0 || random_() % 2 == 0,
                       random_() % 4 == 0 ? -INFINITY : static_cast<float>(random_() % 7) - 3});
    }
    return edits;
  }
  std::vector<uint32_t> RandomBits(uint32_t count) {
    std::vector<uint32_t> words((count + 31) / 32);
    for (uint32_t& word : words) word = random_() & random_();
    return words;
  }
  // The device's copies are appended to the two lists.
  static RowEdits OnDeviceEdits(const model::LogitEdits& edits,
                                std::deque<OnDevice<LogitEdit>>& tokens,
                                std::deque<OnDevice<uint32_t>>& allowed) {
    std::vector<LogitEdit> copies;
    for (const model::LogitEdit& edit : edits.tokens) {
      copies.push_back({edit.token.value(), edit.in_answer, edit.in_text ? 1u : 0u, edit.bias});
    }
    RowEdits row;
    row.presence_penalty = edits.presence_penalty;
    row.frequency_penalty = edits.frequency_penalty;
    row.repetition_penalty = edits.repetition_penalty;
    row.count = static_cast<uint32_t>(copies.size());
    if (!copies.empty()) row.tokens = tokens.emplace_back(copies).data();
    row.allowed_words = static_cast<uint32_t>(edits.allowed.size());
    if (!edits.allowed.empty()) {
      const std::vector<uint32_t> words(edits.allowed.begin(), edits.allowed.end());
      row.allowed = allowed.emplace_back(words).data();
    }
    return row;
  }

  Random random_{5};
};

TEST_F(GpuSampleTest, TakesTheCpusTokens) {
  for (const uint32_t vocab : {1u, 2u, 31u, 511u, 1000u, 4097u}) {
    std::vector<SampleRow> rows;
    for (const float temperature : {0.0f, 0.3f, 1.0f, 2.5f}) {
      for (const uint32_t top_k : {0u, 1u, 3u, 50u, 600u}) {
        for (const float top_p : {0.0f, 0.1f, 0.9f, 1.0f}) {
          const float min_p = random_() % 3 == 0 ? 0.05f : 0;
          rows.push_back(Row(temperature, top_k, top_p, min_p));
        }
      }
    }
    ExpectAsOnCpu(Logits(rows.size(), vocab), vocab, rows);
  }
}

// Many draws of one distribution, as a text has them: seed fixed, position by position.
TEST_F(GpuSampleTest, PositionByPosition) {
  const uint32_t vocab = 700;
  const std::vector<float> one = Logits(1, vocab);
  std::vector<float> logits;
  std::vector<SampleRow> rows(150, Row(0.8f, 0, 0.95f, 0));
  for (uint32_t i = 0; i < rows.size(); ++i) {
    rows[i].position = i;
    logits.insert(logits.end(), one.begin(), one.end());
  }
  ExpectAsOnCpu(logits, vocab, rows);
}

TEST_F(GpuSampleTest, AWholeVocabulary) {
  const uint32_t vocab = 49152;
  const std::vector<SampleRow> rows = {Row(0, 0, 1, 0), Row(1, 0, 1, 0), Row(0.7f, 40, 0.9f, 0),
                                       Row(1.5f, 0, 0.99f, 0.01f)};
  ExpectAsOnCpu(Logits(rows.size(), vocab), vocab, rows);
}

// All alike: ties go to the lower id, in filters as well, and all can be drawn.
TEST_F(GpuSampleTest, Ties) {
  const uint32_t vocab = 2000;
  const std::vector<SampleRow> rows = {Row(0, 0, 1, 0), Row(1, 7, 1, 0), Row(1, 0, 0.001f, 0),
                                       Row(1, 0, 1, 1), Row(1, 0, 1, 0)};
  const std::vector<float> logits(rows.size() * vocab, -2.5f);
  ExpectAsOnCpu(logits, vocab, rows);
  const Sampled got = SampleAll(logits, vocab, rows);
  EXPECT_EQ(got.tokens[0].token, 0);
  EXPECT_LT(got.tokens[1].token, 7);
  EXPECT_LT(got.tokens[2].token, 3);
}

TEST_F(GpuSampleTest, FarApart) {
  const uint32_t vocab = 600;
  std::vector<SampleRow> rows(8);
  for (int i = 0; i < 8; ++i) rows[i] = Row(i % 2 ? 1.0f : 0.01f, i % 3 * 5, 0.999f, 0);
  std::vector<float> logits = Logits(rows.size(), vocab);
  for (float& x : logits) x *= 1e4f;
  for (uint32_t i = 0; i < vocab; ++i) logits[i] = -3e38f;
  ExpectAsOnCpu(logits, vocab, rows);
}

TEST_F(GpuSampleTest, LogProbabilities) {
  constexpr uint32_t kMaxTop = 6;
  for (const uint32_t vocab : {4u, 900u, 3001u}) {
    std::vector<SampleRow> rows = {Row(1, 0, 1, 0), Row(0, 0, 1, 0), Row(1, 0, 1, 0),
                                   Row(1, 0, 1, 0), Row(1, 0, 1, 0)};
    rows[0].top_logprobs = 5;
    rows[1].top_logprobs = 0;
    rows[2].top_logprobs = 20;  // more than there is room for
    rows[3].target = 3;
    rows[3].top_logprobs = 2;
    const std::vector<float> logits = Logits(rows.size(), vocab);
    const Sampled got = SampleAll(logits, vocab, rows, kMaxTop);
    EXPECT_EQ(got.tokens[3].token, 3);
    for (size_t i = 0; i < rows.size(); ++i) {
      const absl::Span<const float> row(&logits[i * vocab], vocab);
      const double log_sum = model::LogSumExp(row);
      const double chosen = rows[i].top_logprobs < 0 ? 0 : row[got.tokens[i].token] - log_sum;
      EXPECT_NEAR(got.tokens[i].logprob, chosen, 2e-6);
      const int room = std::min<int>(kMaxTop, static_cast<int>(vocab));
      const auto want = model::TopLogprobs(row, log_sum, std::clamp(rows[i].top_logprobs, 0, room));
      for (size_t n = 0; n < kMaxTop; ++n) {
        const TopLogprob& entry = got.top[i * kMaxTop + n];
        EXPECT_EQ(entry.token, n < want.size() ? want[n].first.value() : 0) << n;
        EXPECT_NEAR(entry.logprob, n < want.size() ? want[n].second : 0, 2e-6) << n;
      }
    }
  }
}

TEST_F(GpuSampleTest, ALogitThatIsNoNumberIsSaid) {
  const uint32_t vocab = 800;
  const std::vector<SampleRow> rows(4, Row(1, 0, 1, 0));
  std::vector<float> logits = Logits(rows.size(), vocab);
  logits[799] = std::nanf("");
  logits[vocab + 400] = std::numeric_limits<float>::infinity();
  logits[2 * vocab] = -std::numeric_limits<float>::infinity();
  const Sampled got = SampleAll(logits, vocab, rows);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(got.tokens[i].finite, i == 3 ? 1 : 0) << i;
}

// Edits that every kind of row may have, beside rows that have none.
TEST_F(GpuSampleTest, ChangesLogitsAsTheCpu) {
  for (const uint32_t vocab : {33u, 700u, 5000u}) {
    std::vector<SampleRow> rows;
    std::vector<model::LogitEdits> edits(48);
    std::vector<std::vector<model::LogitEdit>> tokens(edits.size());
    std::vector<std::vector<uint32_t>> allowed(edits.size());
    std::vector<uint32_t> last(edits.size());
    std::deque<OnDevice<LogitEdit>> device_tokens;
    std::deque<OnDevice<uint32_t>> device_allowed;
    const OnDevice<float> edited(std::vector<float>(edits.size() * vocab));
    for (uint32_t& token : last) token = random_() % vocab;
    const OnDevice<uint32_t> device_last(last);
    for (size_t i = 0; i < edits.size(); ++i) {
      rows.push_back(Row(i % 3 == 0 ? 0.0f : 0.9f, i % 5 == 0 ? 20 : 0, 0.95f, 0));
      tokens[i] = RandomEdits(i % 4 == 0 ? 0 : 1 + random_() % std::min(vocab, 1200u), vocab);
      if (i % 6 == 1) {
        std::erase_if(tokens[i], [&](const auto& one) { return one.token.value() == last[i]; });
        tokens[i].push_back({TokenId(last[i]), 1, true, 0.5f});
      }
      if (i % 3 == 1) allowed[i] = RandomBits(i % 2 == 0 ? vocab : vocab / 2);
      edits[i].presence_penalty = 0.5f;
      edits[i].frequency_penalty = 0.25f;
      edits[i].repetition_penalty = 1.3f;
      edits[i].tokens = tokens[i];
      edits[i].allowed = allowed[i];
      edits[i].counts_last = i % 2 == 1;
      rows[i].edits = OnDeviceEdits(edits[i], device_tokens, device_allowed);
      rows[i].edits.edited = edits[i].any() ? edited.data() + i * vocab : nullptr;
      if (edits[i].counts_last) rows[i].edits.last = device_last.data() + i;
    }
    const std::vector<float> logits = Logits(rows.size(), vocab);
    const Sampled got = SampleAll(logits, vocab, rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const absl::Span<const float> row(&logits[i * vocab], vocab);
      const std::vector<float> changed = model::EditLogits(row, edits[i], TokenId(last[i]));
      const bool left = *std::max_element(changed.begin(), changed.end()) > -INFINITY;
      EXPECT_EQ(got.tokens[i].left, left ? 1 : 0) << "row " << i << " of " << vocab;
      EXPECT_EQ(got.tokens[i].token, left ? OnCpu(changed.data(), vocab, rows[i]) : 0)
          << "row " << i << " of " << vocab;
    }
  }
}

TEST_F(GpuSampleTest, LogProbabilitiesAreOfTheModelsOwnLogits) {
  const uint32_t vocab = 900;
  std::vector<SampleRow> rows = {Row(0, 0, 1, 0), Row(0, 0, 1, 0)};
  const std::vector<float> logits = Logits(rows.size(), vocab);
  const OnDevice<LogitEdit> never(
      std::vector<LogitEdit>{{model::Argmax({logits.data(), vocab}).value(), 0, 0, -INFINITY}});
  const OnDevice<float> edited{std::vector<float>(vocab)};
  const OnDevice<uint32_t> none(std::vector<uint32_t>{0});
  for (SampleRow& row : rows) row.top_logprobs = 0;
  rows[0].edits = {.edited = edited.data(), .tokens = never.data(), .count = 1};
  rows[1].edits = {.edited = edited.data(), .allowed = none.data(), .allowed_words = 1};
  const Sampled got = SampleAll(logits, vocab, {rows[0]}, 1);
  const absl::Span<const float> row(logits.data(), vocab);
  EXPECT_NE(got.tokens[0].token, model::Argmax(row).value());
  EXPECT_NEAR(got.tokens[0].logprob, row[got.tokens[0].token] - model::LogSumExp(row), 2e-6);
  EXPECT_EQ(SampleAll(logits, vocab, {rows[1]}).tokens[0].left, 0);
}

TEST_F(GpuSampleTest, NotServedOrNothingToDo) {
  const Tensor logits = Dense(nullptr, DataType::kFloat32, 1, 100);
  EXPECT_TRUE(Sample(nullptr, logits, {}, nullptr, nullptr, 0).ok());
  const Tensor wide = Dense(nullptr, DataType::kFloat32, 1, kMaxVocab + 1);
  EXPECT_EQ(Sample(nullptr, wide, {nullptr, 1}, nullptr, nullptr, 0).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Sample(nullptr, logits, {nullptr, 2}, nullptr, nullptr, 0).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace folio::kernels::cuda
