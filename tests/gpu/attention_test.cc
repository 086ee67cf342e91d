// FlashInfer's attention over our pages against the plain family. On a GPU only.
#include "kernels/cuda/attention.h"

#include "kernels/cuda/stream.h"
#include "tests/gpu/device_runs.h"

namespace folio::kernels::cuda {
namespace {

struct Sequence {
  uint32_t context, rows;
};

struct Batch {
  Batch(Random& random, const ScoreShape& s, const std::vector<Sequence>& sequences)
      : shape{s.kv_heads * s.group, s.kv_heads, s.head_dim},
        pool(random, 700, s.kv_heads, s.head_dim, s.page_tokens) {
    for (const auto& [context, rows] : sequences) {
      tables.push_back(pool.Table(context));
      cpu::SpoilRest(pool, {tables.back(), context});
      pages.insert(pages.end(), tables.back().begin(), tables.back().end());
      runs.push_back(
          {static_cast<uint32_t>(row_starts.back()), rows, tables.back().data(), context});
      row_starts.push_back(row_starts.back() + static_cast<int32_t>(rows));
      page_starts.push_back(static_cast<int32_t>(pages.size()));
      last_tokens.push_back(static_cast<int32_t>((context - 1) % s.page_tokens + 1));
    }
    for (size_t i = 0; i < runs.size(); ++i) runs[i].pages = tables[i].data();
    // Scores spread over some +-10.
    q = cpu::RandomBf16(random, size_t{rows()} * cols(), 10.0f / std::sqrt(float(s.head_dim)));
  }
  uint32_t rows() const { return static_cast<uint32_t>(row_starts.back()); }
  uint32_t cols() const { return shape.heads * shape.head_dim; }

  AttentionShape shape;
  RandomPool pool;
  std::vector<std::vector<uint32_t>> tables;
  std::vector<AttentionRun> runs;
  std::vector<int32_t> pages, row_starts{0}, page_starts{0}, last_tokens;
  std::vector<bf16> q;
};

// For batches whose splits are given as well.
constexpr size_t kPartsBytes = size_t{256} << 20;

// Device memory for plans; made once, it is large.
class GpuAttentionTest : public testing::Test {
 protected:
  GpuAttentionTest()
      : parts_(std::vector<std::byte>(kPartsBytes)),
        plan_(std::vector<std::byte>(kAttentionPlanBytes)) {
    FOLIO_CHECK(cudaMallocHost(&pinned_, kAttentionPlanBytes) == cudaSuccess);
  }
  ~GpuAttentionTest() override { cudaFreeHost(pinned_); }

  AttentionMemory memory() const {
    return {parts_.data(), kPartsBytes, plan_.data(), pinned_, kAttentionPlanBytes};
  }
  AttentionPlan Plan(const Batch& batch, const AttentionOptions& options) {
    const auto plan = PlanAttention(nullptr, {batch.row_starts, batch.page_starts}, batch.shape,
                                    batch.pool.geometry.page_tokens, options, memory());
    EXPECT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    return plan.ok() ? *plan : AttentionPlan{};
  }
  std::vector<bf16> Attend(const Batch& batch, const AttentionOptions& options) {
    PoolOnDevice pool(DataType::kBf16, batch.pool);
    const OnDevice<int32_t> pages(batch.pages);
    const OnDevice<int32_t> page_starts(batch.page_starts);
    const OnDevice<int32_t> last_tokens(batch.last_tokens);
    const OnDevice<int32_t> row_starts(batch.row_starts);
    const OnDevice<bf16> q(batch.q);
    const OnDevice<bf16> out(std::vector<bf16>(batch.q.size(), bf16{0x7fc0}));
    const AttentionPlan plan = Plan(batch, options);
    const auto tensor = [&](bf16* data) {
      return Dense(data, DataType::kBf16, batch.rows(), batch.cols());
    };
    const absl::Status status =
        RunAttention(nullptr, plan, tensor(q.data()),
                     {pages.data(), page_starts.data(), last_tokens.data(), row_starts.data()},
                     pool.pool(), memory(), tensor(out.data()));
    EXPECT_TRUE(status.ok()) << status;
    return out.Read();
  }

  void ExpectPlain(Batch& batch, const AttentionOptions& options) {
    const std::vector<bf16> got = Attend(batch, options);
    ASSERT_EQ(got.size(), batch.q.size());
    const auto plain = cpu::MakePlainOps();
    cpu::ThreadPool threads(2);
    cpu::ActivationBuffer in(*plain, batch.rows(), batch.cols(), batch.q.data());
    cpu::ActivationBuffer want(*plain, batch.rows(), batch.cols());
    plain->Attention(threads, {0, batch.rows()}, in.view(), batch.runs, batch.shape,
                     batch.pool.view(), want.view());
    for (size_t i = 0; i < got.size(); ++i) {
      // Probabilities and the result are rounded to bf16; values are of size 1.
      ASSERT_NEAR(got[i].ToFloat(), want.at(i), 0.02f) << "element " << i;
    }
  }

  Random random_{11};

 private:
  OnDevice<std::byte> parts_, plan_;
  void* pinned_ = nullptr;
};

std::vector<Sequence> Decodes() {
  std::vector<Sequence> sequences;
  for (const uint32_t context : {1u, 2u, 15u, 16u, 17u, 63u, 64u, 65u, 511u, 513u, 700u}) {
    sequences.push_back({context, 1});
  }
  return sequences;
}

// Every group size, both head_dims; decoding, prompts of the three tiles, and both together.
TEST_F(GpuAttentionTest, EqualsPlain) {
  for (uint32_t group = 1; group <= 8; ++group) {
    for (const uint32_t head_dim : {64u, 128u}) {
      const ScoreShape shape{1 + group % 3, group, head_dim, group % 4 == 0 ? 32u : 16u};
      SCOPED_TRACE(testing::Message() << "group " << group << ", head_dim " << head_dim);
      std::vector<Sequence> mixed = Decodes();
      for (const Sequence& prompt : {Sequence{1, 1}, {70, 70}, {129, 13}, {200, 65}, {66, 1}}) {
        mixed.push_back(prompt);
      }
      for (const auto& sequences :
           {Decodes(), std::vector<Sequence>{{300, 300}, {40, 9}}, {{90, 20}, {33, 12}}, mixed}) {
        for (const uint32_t split : {0u, 8u}) {
          Batch batch(random_, shape, sequences);
          ExpectPlain(batch, {.split_pages = split});
        }
      }
    }
  }
}

TEST_F(GpuAttentionTest, CapturedBatchesMayBeSmaller) {
  Batch batch(random_, {3, 3, 64, 16}, Decodes());
  ExpectPlain(batch, {.captured = true, .most_rows = batch.rows()});
  ExpectPlain(batch, {.captured = true, .most_rows = 64});
}

// A graph's launches differ in what the plan's memory says, and in nothing else: whether contexts
// are split is a matter of how many rows there are.
TEST_F(GpuAttentionTest, CapturedPlansOfOneShapeHaveTheSameNumbers) {
  constexpr size_t kSplit = 14;  // PrefillPlanInfo::split_kv
  for (const uint32_t rows : {1u, 4u, 300u}) {
    const AttentionOptions options{.captured = true, .most_rows = rows};
    std::vector<Sequence> most(rows, {rows > 4 ? 32u : 700u, 1});
    std::vector<Sequence> fewer(rows, {1, 1});
    fewer[0].context = 20;
    Batch one(random_, {3, 3, 64, 16}, most);
    Batch other(random_, {3, 3, 64, 16}, fewer);
    const AttentionPlan plan = Plan(one, options);
    EXPECT_EQ(plan.flashinfer, Plan(other, options).flashinfer);
    EXPECT_EQ(plan.flashinfer[kSplit], rows < 300) << "rows and KV heads of 900 fill any GPU";
    ExpectPlain(one, options);
    ExpectPlain(other, options);
  }
}

// Prompts of every tile and decode steps of every size in the memory that is said to be enough.
TEST_F(GpuAttentionTest, PartsOfAnyBatchFit) {
  const auto device = UseDevice(0);
  ASSERT_TRUE(device.ok()) << device.status();
  for (const AttentionShape& shape : {AttentionShape{9, 3, 64},
                                      {32, 8, 128},
                                      {64, 4, 128},
                                      {48, 1, 64},
                                      {96, 1, 128},
                                      {4, 4, 128}}) {
    SCOPED_TRACE(testing::Message() << shape.heads << " heads of " << shape.kv_heads);
    AttentionMemory memory = this->memory();
    memory.parts_bytes = AttentionPartsBytes(shape, device->processors);
    const auto fits = [&](uint32_t runs, uint32_t rows, uint32_t pages, bool captured) {
      std::vector<int32_t> row_starts, page_starts;
      for (uint32_t run = 0; run <= runs; ++run) {
        row_starts.push_back(static_cast<int32_t>(run * rows));
        page_starts.push_back(static_cast<int32_t>(run * pages));
      }
      const auto plan = PlanAttention(nullptr, {row_starts, page_starts}, shape, 16,
                                      {.captured = captured, .most_rows = runs * rows}, memory);
      EXPECT_TRUE(plan.ok()) << runs << " runs of " << rows << " rows: " << plan.status();
      EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    };
    for (uint32_t runs = 1; runs < 2 * device->processors; runs += 1 + runs / 8) {
      fits(runs, 1, 2000, true);
      fits(runs, 1, 2000, false);
    }
    for (const uint32_t rows : {2U, 5U, 17U, 65U, 700U, 2048U}) fits(1, rows, 8000, false);
    for (const uint32_t rows : {2U, 9U, 33U, 200U}) fits(7, rows, 900, false);
  }
}

// With a fixed split a row gives the same bits alone and in company.
TEST_F(GpuAttentionTest, FixedSplitsIgnoreCompany) {
  Batch all(random_, {2, 4, 128, 16}, Decodes());
  const AttentionOptions options{.split_pages = 8};
  const std::vector<bf16> together = Attend(all, options);
  for (size_t i = 0; i < all.runs.size(); ++i) {
    Batch one = all;
    one.pages = {all.tables[i].begin(), all.tables[i].end()};
    one.page_starts = {0, static_cast<int32_t>(one.pages.size())};
    one.row_starts = {0, 1};
    one.last_tokens = {all.last_tokens[i]};
    one.q.assign(all.q.begin() + i * all.cols(), all.q.begin() + (i + 1) * all.cols());
    const std::vector<bf16> alone = Attend(one, options);
    for (uint32_t c = 0; c < all.cols(); ++c) {
      ASSERT_EQ(alone[c].bits, together[i * all.cols() + c].bits) << "run " << i;
    }
  }
}

}  // namespace
}  // namespace folio::kernels::cuda
