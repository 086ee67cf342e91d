// The stand-in for NCCL is as awkward as NCCL itself: what it does after a call has returned.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace folio::emulate {
namespace {

// The only rank of its group.
class NcclStandIn : public testing::Test {
 protected:
  void SetUp() override {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t result = ncclCommInitRankConfig(&comm_, 1, id, 0, &config);
    ASSERT_TRUE(result == ncclSuccess || result == ncclInProgress);
    ASSERT_EQ(cudaMalloc(&memory_, kBytes), cudaSuccess);
  }
  void TearDown() override {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    cudaFree(memory_);
  }
  ncclResult_t Sum() {
    return ncclAllReduce(memory_, memory_, 4, ncclFloat32, ncclSum, comm_, nullptr);
  }
  bool InProgress() {
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm_, &state), ncclSuccess);
    return state == ncclInProgress;
  }
  void Settle() {
    while (InProgress()) std::this_thread::yield();
  }

  static constexpr size_t kBytes = NCCL_WIN_REQUIRED_ALIGNMENT;
  ncclComm_t comm_ = nullptr;
  void* memory_ = nullptr;
};

TEST_F(NcclStandIn, ACallThatReturnsSuccessIsStillInProgress) {
  Settle();
  int successes = 0;
  for (int i = 0; i < 4; ++i) {
    successes += Sum() == ncclSuccess ? 1 : 0;
    EXPECT_TRUE(InProgress());
    EXPECT_EQ(Sum(), ncclInvalidArgument);
    EXPECT_NE(std::string(ncclGetLastError(comm_)).find("before the previous operation"),
              std::string::npos);
    Settle();
  }
  EXPECT_EQ(successes, 2);
}

TEST_F(NcclStandIn, AWindowIsWrittenAfterTheCall) {
  Settle();
  ncclWindow_t window = nullptr;
  EXPECT_EQ(ncclCommWindowRegister(comm_, memory_, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC),
            ncclSuccess);
  EXPECT_TRUE(InProgress());
  EXPECT_EQ(Sum(), ncclInvalidArgument);
  Settle();
  EXPECT_NE(window, nullptr);
  EXPECT_NE(Sum(), ncclInvalidArgument);
}

TEST_F(NcclStandIn, ABracketIsOneCall) {
  Settle();
  ncclGroupStart();
  EXPECT_EQ(Sum(), ncclSuccess);
  EXPECT_EQ(Sum(), ncclSuccess);
  const ncclResult_t ended = ncclGroupEnd();
  EXPECT_TRUE(ended == ncclSuccess || ended == ncclInProgress);
  ncclGroupStart();
  EXPECT_EQ(Sum(), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
}

// Two ranks, of which one may have recorded the sum that the other makes at once.
ncclResult_t SumOfTwo(ncclUniqueId id, int rank, bool recorded) {
  ncclComm_t comm = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclCommInitRankConfig(&comm, 2, id, rank, &config);
  ncclResult_t state = ncclInProgress;
  const auto settle = [&] {
    do {
      ncclCommGetAsyncError(comm, &state);
    } while (state == ncclInProgress);
  };
  settle();
  cudaStream_t stream = nullptr;
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  if (recorded) cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  ncclAllReduce(memory, memory, 4, ncclFloat32, ncclSum, comm, stream);
  if (recorded) {
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&made, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    EXPECT_EQ(cudaGraphLaunch(made, stream), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  settle();
  if (made != nullptr) cudaGraphExecDestroy(made);
  ncclCommAbort(comm);
  cudaStreamDestroy(stream);
  cudaFree(memory);
  return state;
}

TEST(NcclStandInGraphs, ACallIsRecordedOnAllRanksOrOnNone) {
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      ncclUniqueId id;
      ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
      ncclResult_t other = ncclSuccess;
      std::thread rank([&] { other = SumOfTwo(id, 1, second); });
      const ncclResult_t one = SumOfTwo(id, 0, first);
      rank.join();
      EXPECT_EQ(one, first == second ? ncclSuccess : ncclInvalidUsage);
      EXPECT_EQ(other, first == second ? ncclSuccess : ncclInvalidUsage);
    }
  }
}

TEST_F(NcclStandIn, AnAbortWaitsForGraphs) {
  Settle();
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ncclAllReduce(memory_, memory_, 4, ncclFloat32, ncclSum, comm_, stream);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  std::atomic<bool> ended{false};
  std::thread abort([&] {
    ncclCommAbort(comm_);
    ended.store(true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(ended.load());
  cudaGraphDestroy(graph);
  abort.join();
  comm_ = nullptr;
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace folio::emulate
