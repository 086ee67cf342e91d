// The stand-in for NCCL is as awkward as NCCL itself: what it does after a call has returned.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

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
    ncclCommAbort(comm_);
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

}  // namespace
}  // namespace folio::emulate
