// Decode steps of ranks as CUDA graphs: the same as kernel by kernel, on all ranks or on none.
#include <cuda_runtime_api.h>

#include <barrier>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/ops/step.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/model/cuda/cuda_graphs.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/cuda_ranks_harness.h"
#include "tests/gpu/dialogue.h"

namespace folio::model::testing {
namespace {

namespace cuda = kernels::cuda;
using ::testing::Each;
using ::testing::Field;

struct Played {
  std::vector<uint32_t> tokens;
  std::vector<float> logprobs;
  uint64_t digest = 0;
  std::vector<GraphCounts> counts;  // by rank
};

// One step behind the host, with the same algorithms every time.
Played PlayGroup(const GroupSetup& setup, const std::function<bool(Rank)>& wanted) {
  Played result;
  const auto script = [&](Stage& stage) -> std::string {
    Dialogue dialogue(stage.executor, stage.pages, /*depth=*/1);
    dialogue.Play();
    result = {dialogue.tokens, dialogue.logprobs, dialogue.digest, {}};
    return stage.executor.fault().ok() ? "" : stage.executor.fault().ToString();
  };
  std::vector<GraphCounts> counts;
  const auto said =
      RunGpuGroup(setup, script, nullptr, {.tune = false, .wanted = wanted, .counts = &counts});
  for (uint32_t rank = 0; rank < setup.ranks; ++rank) EXPECT_EQ(said[rank], "") << "rank " << rank;
  result.counts = std::move(counts);
  return result;
}

void ExpectSame(const Played& one, const Played& other) {
  EXPECT_GT(one.tokens.size(), 40u);
  EXPECT_EQ(one.tokens, other.tokens);
  EXPECT_EQ(one.logprobs, other.logprobs);
  EXPECT_EQ(one.digest, other.digest);
}

class CudaRanksGraphsTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    int devices = 0;
    cudaGetDeviceCount(&devices);
    if (!Emulated() && static_cast<uint32_t>(devices) < GetParam()) {
      GTEST_SKIP() << "needs " << GetParam() << " GPUs";
    }
  }

  const RandomModel model_{GpuConfig(), 77};
  // With four ranks each KV head is on two, which have different numbers of query heads.
  const GroupSetup setup_ = {.model = model_, .ranks = GetParam()};
};

TEST_P(CudaRanksGraphsTest, TokensAreThoseWithoutGraphs) {
  const Played with = PlayGroup(setup_, nullptr);
  const Played without = PlayGroup(setup_, [](Rank) { return false; });
  ExpectSame(with, without);
  for (uint32_t rank = 0; rank < GetParam(); ++rank) {
    const GraphCounts& counts = with.counts[rank];
    EXPECT_GE(counts.recorded, 2u) << "rank " << rank;
    EXPECT_GT(counts.replayed, 20u) << "rank " << rank;
    EXPECT_EQ(counts.refused, 0u) << "rank " << rank;
    EXPECT_EQ(counts.recorded, with.counts[0].recorded) << "rank " << rank;
    EXPECT_EQ(counts.replayed, with.counts[0].replayed) << "rank " << rank;
    EXPECT_EQ(counts.passed, with.counts[0].passed) << "rank " << rank;
  }
  EXPECT_THAT(without.counts, Each(Field(&GraphCounts::replayed, 0u)));
}

TEST_P(CudaRanksGraphsTest, ARankThatMayNotRecordStopsAll) {
  const Played all = PlayGroup(setup_, [](Rank) { return false; });
  const uint32_t last = GetParam() - 1;
  ::testing::internal::CaptureStderr();
  const Played some = PlayGroup(setup_, [&](Rank rank) { return rank.value() != last; });
  const std::string log = ::testing::internal::GetCapturedStderr();
  ExpectSame(some, all);
  EXPECT_THAT(some.counts, Each(Field(&GraphCounts::replayed, 0u)));
  EXPECT_THAT(some.counts, Each(Field(&GraphCounts::recorded, 0u)));
  EXPECT_THAT(some.counts, Each(Field(&GraphCounts::refused, ::testing::Ge(2u))));
  EXPECT_THAT(log, ::testing::HasSubstr(absl::StrCat("rank ", last, ": graphs are switched off")));
}

INSTANTIATE_TEST_SUITE_P(Ranks, CudaRanksGraphsTest, ::testing::Values(2u, 4u));

// Votes between threads, and nothing else.
struct Votes {
  std::barrier<> all{2};
  uint64_t subjects[2];
  std::string objections[2];
};
class VotingCommunicator final : public CudaCommunicator {
 public:
  VotingCommunicator(Votes& votes, int rank) : votes_(votes), rank_(rank) {}

  bool leads() const override { return rank_ == 0; }
  cuda::Tensor partial(uint32_t) const override { return {}; }
  absl::Status AllReduce(cuda::Stream, uint32_t) override { return absl::OkStatus(); }
  absl::StatusOr<cuda::Tensor> GatherLogits(cuda::Stream, const cuda::Tensor& own) override {
    return own;
  }
  absl::Status BroadcastTokens(cuda::Stream, void*, size_t) override { return absl::OkStatus(); }
  bool splits_groups() const override { return false; }
  absl::StatusOr<GroupQueries> GatherQueries(cuda::Stream, const cuda::Tensor& q) override {
    return GroupQueries{q, {}};
  }
  absl::StatusOr<std::string> Agree(uint64_t subject, absl::string_view objection) override {
    votes_.subjects[rank_] = subject;
    votes_.objections[rank_] = std::string(objection);
    votes_.all.arrive_and_wait();
    EXPECT_EQ(votes_.subjects[0], votes_.subjects[1]);
    std::string answer = votes_.objections[votes_.objections[0].empty() ? 1 : 0];
    votes_.all.arrive_and_wait();
    return answer;
  }
  absl::Status Await(const cuda::Event& done) override { return done.Wait(); }
  void Abort(const absl::Status&) override {}

 private:
  Votes& votes_;
  const int rank_;
};

// Ranks forget together, and vote on the same shapes before and after it.
TEST(CudaRanksGraphs, ShapesAreForgottenOnAllRanks) {
  Votes votes;
  GraphCounts counts[2];
  const auto rank = [&](int number) {
    const auto stream = cuda::OwnedStream::Create();
    const auto counter = cuda::PinnedBuffer::Allocate(sizeof(uint64_t), "a counter");
    ASSERT_TRUE(stream.ok() && counter.ok());
    cuda::DeviceMemory memory(0);
    VotingCommunicator communicator(votes, number);
    CudaGraphs graphs(memory, stream->get(), /*enabled=*/true, &communicator);
    for (uint64_t shape = 0; shape < 300; ++shape) {
      for (int again = 0; again < 3; ++again) {
        const auto enqueue = [&] {
          return cuda::CountStep(stream->get(), counter->on_device<uint64_t>(), shape);
        };
        ASSERT_TRUE(graphs.Run({1, shape}, enqueue).ok());
        ASSERT_TRUE(cuda::WaitFor(stream->get()).ok());
        ASSERT_EQ(*counter->as<uint64_t>(), shape);
      }
    }
    counts[number] = graphs.counts();
  };
  std::thread other([&] { rank(1); });
  rank(0);
  other.join();
  for (const GraphCounts& of_rank : counts) {
    EXPECT_EQ(of_rank.recorded, 300u);
    EXPECT_EQ(of_rank.replayed, 600u);
    EXPECT_EQ(of_rank.passed, 300u);
  }
}

}  // namespace
}  // namespace folio::model::testing
