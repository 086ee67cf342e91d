// Gathering survivors: the same memory as after the CPU's CompactLayer, pages of others included.
#include "kernels/cuda/ops/ops.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

struct Shape {
  uint32_t kv_heads, head_dim, page_tokens;
};
constexpr Shape kShapes[] = {{3, 64, 16}, {2, 128, 16}, {1, 64, 8},
                             {8, 16, 16}, {1, 24, 32},  {5, 80, 16}};

// Some sequences, each with its table and what it keeps.
struct Sequences {
  void Add(RandomPool& pool, uint32_t tokens, std::vector<uint32_t> kept) {
    tables.push_back(pool.Table(tokens));
    keep.push_back(std::move(kept));
  }
  std::vector<std::vector<uint32_t>> tables, keep;
};

std::vector<uint32_t> Some(Random& random, uint32_t tokens, uint32_t share) {
  std::vector<uint32_t> keep;
  for (uint32_t slot = 0; slot < tokens; ++slot) {
    if (random() % 8 < share) keep.push_back(slot);
  }
  return keep;
}

void Gather(const Sequences& sequences, const DevicePool& pool) {
  std::vector<std::unique_ptr<OnDevice<uint32_t>>> memory;
  std::vector<CompactItem> runs;
  const auto put = [&](const std::vector<uint32_t>& values) {
    memory.push_back(std::make_unique<OnDevice<uint32_t>>(values));
    return memory.back()->data();
  };
  for (size_t i = 0; i < sequences.keep.size(); ++i) {
    const uint32_t* table = put(sequences.tables[i]);
    runs.push_back(
        {table, put(sequences.keep[i]), static_cast<uint32_t>(sequences.keep[i].size())});
  }
  const OnDevice<CompactItem> device_runs(runs);
  const absl::Status status = Compact(nullptr, device_runs.array(), pool);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
}

class GpuCompactTest : public StoredTest {};

TEST_P(GpuCompactTest, EqualsTheCpu) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(testing::Message() << s.kv_heads << " x " << s.head_dim);
    RandomPool pool(random_, 160, s.kv_heads, s.head_dim, s.page_tokens);
    pool.values = RoundNumbers(pool.values);
    pool.scores = RandomFloats(random_, pool.scores.size());
    Sequences sequences;
    sequences.Add(pool, 40, {});
    sequences.Add(pool, 1, {0});
    sequences.Add(pool, 16, {15});
    sequences.Add(pool, 64, Some(random_, 64, 8));  // all of them: nothing moves
    sequences.Add(pool, 300, Some(random_, 300, 4));
    sequences.Add(pool, 33, Some(random_, 33, 1));
    std::vector<uint32_t> but_one = Some(random_, 257, 8);
    but_one.erase(but_one.begin() + 130);  // some tiles stay, others move by one
    sequences.Add(pool, 257, but_one);
    PoolOnDevice device(type(), pool);
    Gather(sequences, device.pool());
    for (size_t i = 0; i < sequences.keep.size(); ++i) {
      cpu::CompactLayer(pool.view(), sequences.tables[i], sequences.keep[i]);
    }
    ASSERT_EQ(device.Numbers(), Restored(type(), pool.values));
    ASSERT_EQ(device.Scores(), pool.scores);
  }
}

TEST_P(GpuCompactTest, WorksWithoutAScoreBoard) {
  RandomPool pool(random_, 4, 2, 64);
  pool.values = RoundNumbers(pool.values);
  Sequences sequences;
  sequences.Add(pool, 40, {3, 20, 39});
  PoolOnDevice device(type(), pool);
  DevicePool unread = device.pool();
  unread.view.scores = nullptr;
  Gather(sequences, unread);
  EXPECT_EQ(device.Scores(), pool.scores);
  cpu::CompactLayer(pool.view(), sequences.tables[0], sequences.keep[0]);
  EXPECT_EQ(device.Numbers(), Restored(type(), pool.values));
}

TEST_P(GpuCompactTest, NothingToDoOrNotServed) {
  RandomPool pool(random_, 2, 1, 64);
  PoolOnDevice device(type(), pool);
  EXPECT_TRUE(Compact(nullptr, {}, device.pool()).ok());
  DevicePool odd = device.pool();
  odd.view.geometry.head_dim = 12;
  EXPECT_EQ(Compact(nullptr, {}, odd).code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuCompactTest, kStored, TypeName);

}  // namespace
}  // namespace folio::kernels::cuda
