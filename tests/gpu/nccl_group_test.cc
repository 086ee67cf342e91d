// Tests of ranks that exchange device memory. One GPU is enough, because NCCL lets several ranks
// share it where NCCL_MULTI_RANK_GPU_ENABLE is set. With more GPUs each rank has its own.
#include "services/model/cuda/nccl_group.h"

#include <nccl.h>

#include <barrier>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <thread>

#include "kernels/cuda/runtime/graph.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

class Streaming {
 public:
  // Copies of other ranks that share the GPU do not wait for it.
  Streaming() {
    FOLIO_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~Streaming() { cudaStreamDestroy(stream_); }
  Stream get() const { return stream_; }
  void Wait() const { ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

 private:
  cudaStream_t stream_ = nullptr;
};

// A rank's part in sums of ones.
struct SumOfOnes {
  NcclGroup& group;
  const Streaming stream{};
  const OnDevice<float> values{std::vector<float>(1000, 1)};

  absl::Status operator()() const {
    return group.AllReduce(values.data(), 1000, DataType::kFloat32, stream.get());
  }
};

class NcclGroupTest : public testing::TestWithParam<uint32_t> {
 protected:
  static void SetUpTestSuite() { setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", /*overwrite=*/1); }
  void SetUp() override {
    int devices = 0;
    int version = 0;
    ASSERT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
    ASSERT_EQ(ncclGetVersion(&version), ncclSuccess);
    if (static_cast<uint32_t>(devices) >= GetParam() || version >= NCCL_VERSION(2, 30, 0)) return;
    GTEST_SKIP() << "NCCL " << version << " wants a GPU for each rank; 2.30 does not";
  }

  // Runs each rank in a thread of its own. Ranks that share a GPU may only make collective calls
  // while one of them waits there, so `ready_` waits until all have come.
  void OnRanks(const std::function<void(NcclGroup&, uint32_t rank)>& work) {
    auto id = NcclGroup::MakeId();
    ASSERT_TRUE(id.ok()) << id.status();
    int devices = 0;
    ASSERT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
    std::barrier<> all(GetParam());
    ready_ = [&all] {
      // Copies from memory that is not page-locked end after their call.
      EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
      all.arrive_and_wait();
    };
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < GetParam(); ++rank) {
      threads.emplace_back([&, rank] {
        const int device = static_cast<int>(rank) % devices;
        auto group = NcclGroup::Join({*id, Rank(rank), GetParam(), device});
        EXPECT_TRUE(group.ok()) << group.status();
        if (group.ok()) work(**group, rank);
        all.arrive_and_drop();  // a rank that fails does not block the others
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  void Ready() const { ready_(); }
  // The first call of its kind connects the ranks.
  void Connect(const SumOfOnes& sum) const {
    Ready();
    const absl::Status first = sum();
    EXPECT_TRUE(first.ok()) << first;
    sum.stream.Wait();
    Ready();
  }

 private:
  std::function<void()> ready_;
};

TEST_P(NcclGroupTest, SumsAreTheSameOnAllRanks) {
  constexpr uint32_t kCount = 10007;
  std::vector<std::vector<float>> sums(GetParam());
  OnRanks([&](NcclGroup& group, uint32_t rank) {
    const Streaming stream;
    auto buffer = group.Allocate(kCount * sizeof(float));
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    std::vector<float> values(kCount);
    std::iota(values.begin(), values.end(), static_cast<float>(rank) * 0.37F);
    ASSERT_EQ(cudaMemcpy(*buffer, values.data(), kCount * 4, cudaMemcpyHostToDevice), cudaSuccess);
    Ready();
    const absl::Status summed = group.AllReduce(*buffer, kCount, DataType::kFloat32, stream.get());
    ASSERT_TRUE(summed.ok()) << summed;
    stream.Wait();
    ASSERT_EQ(cudaMemcpy(values.data(), *buffer, kCount * 4, cudaMemcpyDeviceToHost), cudaSuccess);
    sums[rank] = values;
  });
  for (uint32_t rank = 0; rank < GetParam(); ++rank) {
    ASSERT_EQ(sums[rank].size(), kCount)
        << "rank " << rank << " has no sum, and its error is above";
  }
  for (uint32_t i = 0; i < kCount; ++i) {
    float want = 0;
    for (uint32_t rank = 0; rank < GetParam(); ++rank) {
      want += static_cast<float>(i) + static_cast<float>(rank) * 0.37F;
    }
    ASSERT_NEAR(sums[0][i], want, want * 1e-6F + 1e-6F) << "value " << i;
  }
  for (const std::vector<float>& of_rank : sums) EXPECT_EQ(of_rank, sums[0]);
}

// NCCL makes a buffer known to all ranks after the call, and refuses other calls until it is done.
TEST_P(NcclGroupTest, ABufferServesAtOnce) {
  constexpr uint32_t kCount = 1000;
  OnRanks([&](NcclGroup& group, uint32_t rank) {
    const Streaming stream;
    for (int i = 0; i < 3; ++i) {
      Ready();
      auto buffer = group.Allocate(kCount * sizeof(float));
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      const absl::Status summed =
          group.AllReduce(*buffer, kCount, DataType::kFloat32, stream.get());
      ASSERT_TRUE(summed.ok()) << "rank " << rank << ": " << summed;
      stream.Wait();
    }
  });
}

TEST_P(NcclGroupTest, PiecesOfDifferentSizesAreGathered) {
  std::vector<size_t> sizes;
  std::vector<uint8_t> want;
  for (uint32_t rank = 0; rank < GetParam(); ++rank) {
    sizes.push_back(1000 + 16 * rank);
    want.insert(want.end(), sizes.back(), static_cast<uint8_t>(rank + 1));
  }
  for (const bool everyone : {false, true}) {
    OnRanks([&](NcclGroup& group, uint32_t rank) {
      const Streaming stream;
      const OnDevice<uint8_t> mine(std::vector<uint8_t>(sizes[rank], rank + 1));
      const OnDevice<uint8_t> all(std::vector<uint8_t>(want.size(), 99));
      const bool gets = everyone || rank == 0;
      Ready();
      const absl::Status gathered =
          group.Gather(mine.data(), sizes, gets ? all.data() : nullptr, everyone, stream.get());
      ASSERT_TRUE(gathered.ok()) << gathered;
      stream.Wait();
      EXPECT_EQ(all.Read(), gets ? want : std::vector<uint8_t>(want.size(), 99)) << "rank " << rank;
    });
  }
}

TEST_P(NcclGroupTest, TheLeadersBytesReachAll) {
  OnRanks([&](NcclGroup& group, uint32_t rank) {
    const Streaming stream;
    const OnDevice<uint32_t> tokens(std::vector<uint32_t>(64, rank == 0 ? 4711 : 0));
    Ready();
    const absl::Status told = group.Broadcast(tokens.data(), 64 * 4, stream.get());
    ASSERT_TRUE(told.ok()) << told;
    stream.Wait();
    EXPECT_EQ(tokens.Read(), std::vector<uint32_t>(64, 4711));
    EXPECT_TRUE(group.Health().ok());
  });
}

TEST_P(NcclGroupTest, AbortEndsWhoWaitsForAPeer) {
  OnRanks([&](NcclGroup& group, uint32_t rank) {
    const SumOfOnes sum{group};
    Connect(sum);
    if (rank == 0) {
      // No other rank calls, so only the abort lets the stream end.
      const absl::Status enqueued = sum();
      EXPECT_TRUE(enqueued.ok()) << enqueued;
    }
    group.Abort(absl::UnavailableError("rank 1 has gone"));
    EXPECT_EQ(group.Health().message(), "rank 1 has gone");
    EXPECT_EQ(group.Broadcast(sum.values.data(), 4, sum.stream.get()).message(), "rank 1 has gone");
    sum.stream.Wait();
  });
}

// The first call of its kind is not recorded, because it connects the ranks.
TEST_P(NcclGroupTest, RecordedSumsAreTheSame) {
  constexpr uint32_t kCount = 1000;
  OnRanks([&](NcclGroup& group, uint32_t rank) {
    const Streaming stream;
    auto buffer = group.Allocate(kCount * sizeof(float));
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    const std::vector<float> mine(kCount, static_cast<float>(rank + 1));
    const auto sum = [&] {
      return group.AllReduce(*buffer, kCount, DataType::kFloat32, stream.get());
    };
    Ready();
    ASSERT_TRUE(sum().ok());
    stream.Wait();
    Ready();
    const auto graph = Graph::Capture(stream.get(), sum);
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (int launch = 0; launch < 3; ++launch) {
      stream.Wait();
      ASSERT_EQ(cudaMemcpy(*buffer, mine.data(), kCount * 4, cudaMemcpyHostToDevice), cudaSuccess);
      Ready();
      ASSERT_TRUE(graph->Launch(stream.get()).ok());
      stream.Wait();
      std::vector<float> sums(kCount);
      ASSERT_EQ(cudaMemcpy(sums.data(), *buffer, kCount * 4, cudaMemcpyDeviceToHost), cudaSuccess);
      const auto ranks = static_cast<float>(GetParam());
      EXPECT_EQ(sums, std::vector<float>(kCount, ranks * (ranks + 1) / 2));
      Ready();
    }
    EXPECT_TRUE(group.Health().ok());
  });
}

// The group ends although a graph holds its calls, and the graph's owner is not kept waiting.
TEST_P(NcclGroupTest, AbortEndsAGraphThatWaitsForAPeer) {
  OnRanks([&](NcclGroup& group, uint32_t rank) {
    const SumOfOnes sum{group};
    Connect(sum);
    const auto graph = Graph::Capture(sum.stream.get(), sum);
    ASSERT_TRUE(graph.ok()) << graph.status();
    Ready();
    if (rank == 0) {
      ASSERT_TRUE(graph->Launch(sum.stream.get()).ok());
    }
    group.Abort(absl::UnavailableError("rank 1 has gone"));
    EXPECT_EQ(sum().message(), "rank 1 has gone");
    EXPECT_EQ(group.Health().message(), "rank 1 has gone");
    sum.stream.Wait();
  });
}

TEST_P(NcclGroupTest, ARankThatDoesNotComeIsMissed) {
  auto id = NcclGroup::MakeId();
  ASSERT_TRUE(id.ok()) << id.status();
  const auto group = NcclGroup::Join({*id, Rank(0), GetParam(), 0, absl::Milliseconds(500)});
  EXPECT_EQ(group.status().code(), absl::StatusCode::kDeadlineExceeded) << group.status();
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclGroupTest, testing::Values(2U, 4U));

}  // namespace
}  // namespace folio::kernels::cuda
