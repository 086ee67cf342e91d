// Graphs that cannot be made, and devices that fail in one, which only the emulation does on
// demand.
#include <gtest/gtest.h>

#include <vector>

#include "tests/emulator/runtime.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/decode_batch.h"

namespace folio::model::testing {
namespace {

class GraphFaultsTest : public ::testing::Test {
 protected:
  ~GraphFaultsTest() override { emulate::faults = {}; }

  const RandomModel model_{GpuConfig(), 21};
};

// The step is none the worse for it.
TEST_F(GraphFaultsTest, WhereNoGraphCanBeMadeStepsRunKernelByKernel) {
  CudaHarness harness(model_, Options(true));
  CudaHarness plain(model_, Options(false));
  ASSERT_TRUE(harness.made().ok() && plain.made().ok());
  DecodeBatch batch(harness, 3);
  DecodeBatch other(plain, 3);
  emulate::faults.instantiate = cudaErrorMemoryAllocation;
  ::testing::internal::CaptureStderr();
  uint32_t position = DecodeBatch::kPrompt;
  for (const uint32_t size : {3u, 3u, 3u, 2u, 2u, 3u}) {
    EXPECT_EQ(batch.Step(size, position), other.Step(size, position));
    ++position;
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string said = "a decode step cannot be a CUDA graph";
  const size_t first = log.find(said);
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_NE(log.find("out of memory"), std::string::npos) << log;
  EXPECT_EQ(log.find(said, first + 1), std::string::npos) << "said more than once: " << log;
  EXPECT_TRUE(harness.executor().fault().ok());
  const GraphCounts counts = GraphsOf(harness.executor());
  EXPECT_EQ(counts.refused, 2u);
  EXPECT_EQ(counts.recorded, 0u);
  EXPECT_EQ(counts.replayed, 0u);
  // A shape that was refused is not tried again, but a new shape is.
  emulate::faults = {};
  EXPECT_EQ(batch.Step(3, position), other.Step(3, position));
  ++position;
  for (int i = 0; i < 3; ++i, ++position) {
    EXPECT_EQ(batch.Step(1, position), other.Step(1, position));
  }
  EXPECT_EQ(GraphsOf(harness.executor()).replayed, 2u);
  ExpectSameMemory(harness, plain);
}

// Graphs count as what the executor takes.
TEST_F(GraphFaultsTest, GraphsKeepToTheBudget) {
  CudaHarnessOptions options = Options(true);
  size_t taken = 0;
  {
    const size_t before = emulate::AllocatedBytes();
    CudaHarness harness(model_, options);
    DecodeBatch batch(harness, 1);
    batch.Step(1, DecodeBatch::kPrompt);
    taken = emulate::AllocatedBytes() - before - harness.Pages().size() * sizeof(kernels::bf16);
  }
  options.gpu_memory = taken + 4096;
  CudaHarness harness(model_, options);
  ASSERT_TRUE(harness.made().ok()) << harness.made();
  DecodeBatch batch(harness, 1);
  for (uint32_t position = DecodeBatch::kPrompt; position < 45; ++position) {
    batch.Step(1, position);
  }
  EXPECT_TRUE(harness.executor().fault().ok());
  EXPECT_EQ(GraphsOf(harness.executor()).refused, 1u);
  EXPECT_EQ(GraphsOf(harness.executor()).bytes, 0u);
}

TEST_F(GraphFaultsTest, ALaunchThatFailsIsTheExecutorsFault) {
  CudaHarness harness(model_, Options(true));
  ASSERT_TRUE(harness.made().ok());
  DecodeBatch batch(harness, 2);
  batch.Step(2, 37);
  batch.Step(2, 38);
  emulate::faults.launch = cudaErrorLaunchFailure;
  const StepBatch step{{batch.Segment(0, 39), batch.Segment(1, 39)}};
  const StepOutput output = harness.executor().Collect(harness.executor().Enqueue(step));
  EXPECT_EQ(output.status,
            absl::InternalError("a graph was not started: unspecified launch failure"));
  EXPECT_EQ(harness.executor().fault(), output.status);
  emulate::faults = {};
  const StepBatch next{{batch.Segment(0, 40)}};
  EXPECT_EQ(harness.executor().Collect(harness.executor().Enqueue(next)).status, output.status);
}

TEST_F(GraphFaultsTest, ADeviceThatFailsInAGraphIsTheExecutorsFault) {
  CudaHarness harness(model_, Options(true));
  ASSERT_TRUE(harness.made().ok());
  DecodeBatch batch(harness, 2);
  batch.Step(2, 37);
  batch.Step(2, 38);
  const StepTicket ticket =
      harness.executor().Enqueue({{batch.Segment(0, 39), batch.Segment(1, 39)}});
  EXPECT_EQ(GraphsOf(harness.executor()).replayed, 2u);
  emulate::faults.wait = cudaErrorLaunchFailure;
  const StepOutput output = harness.executor().Collect(ticket);
  EXPECT_EQ(output.status, absl::InternalError("the device failed: unspecified launch failure"));
  EXPECT_EQ(harness.executor().fault(), output.status);
  EXPECT_TRUE(output.outputs.empty());
  emulate::faults = {};
}

}  // namespace
}  // namespace folio::model::testing
