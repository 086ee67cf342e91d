// Tables, rows, fed tokens and the step counter against what they say.
#include "kernels/cuda/ops/step.h"

#include <numeric>

#include "kernels/cuda/runtime/memory.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

std::vector<uint32_t> Numbers(Random& random, uint32_t count) {
  std::vector<uint32_t> numbers(count);
  for (uint32_t& x : numbers) x = static_cast<uint32_t>(random() % 1000000);
  return numbers;
}

TEST(GpuStepTest, TablesAreWrittenAndNothingBesides) {
  Random random(5);
  std::vector<uint32_t> table = Numbers(random, 2000);
  const std::vector<uint32_t> from = Numbers(random, 1000);
  const OnDevice<uint32_t> device_table(table);
  const OnDevice<uint32_t> device_from(from);
  struct Place {
    uint32_t to, from, count;
  };
  std::vector<TableWrite> writes;
  for (const auto& [to, at, count] :
       {Place{0, 700, 1}, {3, 0, 127}, {500, 130, 300}, {1999, 5, 1}, {900, 0, 0}}) {
    writes.push_back({device_table.data() + to, device_from.data() + at, count});
    std::copy_n(from.begin() + at, count, table.begin() + to);
  }
  const OnDevice<TableWrite> device_writes(writes);
  ASSERT_TRUE(WriteTables(nullptr, device_writes.array()).ok());
  EXPECT_EQ(device_table.Read(), table);
}

TEST(GpuStepTest, RunsAreLaidFromTheirTables) {
  Random random(6);
  struct Run {
    uint32_t resident, rows;
  };
  for (const uint32_t page_tokens : {16u, 5u}) {
    std::vector<PlacedItem> runs;
    std::vector<std::vector<uint32_t>> tables;
    std::vector<std::unique_ptr<OnDevice<uint32_t>>> on_device;
    std::vector<AppendSlot> want_slots;
    std::vector<int32_t> want_pages;
    const OnDevice<int32_t> pages(std::vector<int32_t>(1000, -1));
    const OnDevice<AppendSlot> slots(std::vector<AppendSlot>(1000));
    for (const auto& [resident, rows] :
         {Run{0, 1}, {0, 300}, {15, 1}, {16, 1}, {17, 40}, {1000, 1}}) {
      const uint32_t used = (resident + rows + page_tokens - 1) / page_tokens;
      tables.push_back(Numbers(random, used + 2));
      on_device.push_back(std::make_unique<OnDevice<uint32_t>>(tables.back()));
      runs.push_back({on_device.back()->data(), pages.data() + want_pages.size(),
                      slots.data() + want_slots.size(), resident, rows, 3 * resident + 7,
                      rows == 1 ? ScoreKind::kNormRatio : ScoreKind::kNone});
      want_pages.insert(want_pages.end(), tables.back().begin(), tables.back().begin() + used);
      for (uint32_t i = 0; i < rows; ++i) {
        want_slots.push_back({tables.back()[(resident + i) / page_tokens],
                              (resident + i) % page_tokens, 3 * resident + 7 + i,
                              runs.back().score});
      }
    }
    const OnDevice<PlacedItem> device_runs(runs);
    ASSERT_TRUE(PlaceItems(nullptr, device_runs.array(), page_tokens).ok());
    std::vector<int32_t> got_pages = pages.Read();
    EXPECT_EQ(got_pages[want_pages.size()], -1);
    got_pages.resize(want_pages.size());
    EXPECT_EQ(got_pages, want_pages);
    const std::vector<AppendSlot> got = slots.Read();
    for (size_t i = 0; i < want_slots.size(); ++i) {
      ASSERT_EQ(got[i].page, want_slots[i].page) << i;
      ASSERT_EQ(got[i].offset, want_slots[i].offset) << i;
      ASSERT_EQ(got[i].position, want_slots[i].position) << i;
      ASSERT_EQ(got[i].score, want_slots[i].score) << i;
    }
  }
  EXPECT_EQ(PlaceItems(nullptr, {}, 0).code(), absl::StatusCode::kInvalidArgument);
}

// Padding looks at a sequence's first page, and its rows have no place.
TEST(GpuStepTest, PaddingHasNoPlace) {
  const OnDevice<uint32_t> table({31, 41, 59});
  const OnDevice<int32_t> pages(std::vector<int32_t>(4, -1));
  const OnDevice<AppendSlot> slots(std::vector<AppendSlot>(3));
  std::vector<PlacedItem> runs{{table.data(), pages.data(), slots.data(), 20, 1, 20},
                               {table.data(), pages.data() + 2, slots.data() + 1, 0, 1, 20}};
  runs[1].padding = true;
  const OnDevice<PlacedItem> device_runs(runs);
  ASSERT_TRUE(PlaceItems(nullptr, device_runs.array(), 16).ok());
  EXPECT_EQ(pages.Read(), (std::vector<int32_t>{31, 41, 31, -1}));
  EXPECT_EQ(slots.Read()[0].page, 41u);
  EXPECT_EQ(slots.Read()[0].offset, 4u);
  EXPECT_EQ(slots.Read()[1].page, kNoPage);
}

TEST(GpuStepTest, KeptTokensAreFed) {
  Random random(7);
  const uint32_t count = 150;
  std::vector<SampledToken> sampled(count);
  std::vector<uint32_t> places(count);
  std::iota(places.rbegin(), places.rend(), 10);
  places[3] = places[77] = kNotKept;
  std::vector<uint32_t> kept(count + 20, 77);
  std::vector<uint32_t> ids;
  std::vector<uint32_t> want;
  const OnDevice<uint32_t> device_kept(kept);
  for (uint32_t i = 0; i < count; ++i) {
    sampled[i].token = static_cast<uint32_t>(random() % 50000);
    const bool feeds = i % 3 != 0 && places[i] != kNotKept;
    if (places[i] != kNotKept) kept[places[i]] = sampled[i].token;
    ids.push_back(feeds ? kKeptToken + places[i] : i);
    want.push_back(feeds ? sampled[i].token : i);
  }
  const OnDevice<SampledToken> device_sampled(sampled);
  const OnDevice<uint32_t> device_places(places);
  const OnDevice<uint32_t> device_ids(ids);
  const OnDevice<uint32_t> fed(std::vector<uint32_t>(count, 0));
  ASSERT_TRUE(
      KeepTokens(nullptr, device_sampled.data(), device_places.array(), device_kept.data()).ok());
  ASSERT_TRUE(FeedTokens(nullptr, device_ids.array(), device_kept.data(), fed.data()).ok());
  EXPECT_EQ(device_kept.Read(), kept);
  EXPECT_EQ(fed.Read(), want);
}

TEST(GpuStepTest, RowsAreGathered) {
  Random random(8);
  const uint32_t cols = 333;
  const uint32_t stride = 336;
  const std::vector<float> from = RandomFloats(random, 10 * stride);
  const std::vector<uint32_t> rows{9, 0, 4, 4};
  const OnDevice<float> device_from(from);
  const OnDevice<uint32_t> device_rows(rows);
  const OnDevice<float> out(std::vector<float>(rows.size() * cols));
  const ConstTensor tensor(device_from.data(), DataType::kFloat32, 10, cols, stride);
  const Tensor to = Dense(out.data(), DataType::kFloat32, rows.size(), cols);
  ASSERT_TRUE(GatherRows(nullptr, tensor, device_rows.array(), to).ok());
  const std::vector<float> got = out.Read();
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], from[rows[i / cols] * stride + i % cols]) << i;
  }
  EXPECT_EQ(GatherRows(nullptr, tensor, device_rows.array(),
                       Dense(out.data(), DataType::kFloat32, 3, cols))
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GpuStepTest, TheCounterIsTheHostsMemory) {
  const auto counter = PinnedBuffer::Allocate(sizeof(uint64_t), "a counter");
  ASSERT_TRUE(counter.ok());
  *counter->as<uint64_t>() = 0;
  ASSERT_TRUE(CountStep(nullptr, counter->on_device<uint64_t>(), uint64_t{1} << 40).ok());
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(*counter->as<uint64_t>(), uint64_t{1} << 40);
}

}  // namespace
}  // namespace folio::kernels::cuda
