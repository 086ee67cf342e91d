// The executor of a GPU one step behind the host against itself.
#include <gtest/gtest.h>

#include "tests/gpu/cuda_executor_rig.h"
#include "tests/gpu/dialogue.h"

namespace folio::model::testing {
namespace {

void ExpectOneStepBehindIsTheSame(bool graphs) {
  const RandomModel model(GpuConfig(), 77);
  const CudaRigOptions options{.max_rows = 256, .graphs = graphs, .tune = false};
  CudaRig alone(model, options);
  CudaRig behind(model, options);
  ASSERT_TRUE(alone.made().ok() && behind.made().ok());
  EXPECT_EQ(behind.executor().pipeline_depth(), 1);
  Dialogue one(alone, 0);
  Dialogue other(behind, 1);
  one.Play();
  other.Play();
  EXPECT_GT(one.tokens.size(), 40u);
  EXPECT_EQ(one.tokens, other.tokens);
  EXPECT_EQ(one.logprobs, other.logprobs);
  EXPECT_EQ(one.digest, other.digest);
  ExpectSameMemory(alone, behind);
  EXPECT_EQ(GraphsOf(behind.executor()).replayed > 20, graphs);
}

TEST(CudaExecutorTest, OneStepBehindIsTheSame) { ExpectOneStepBehindIsTheSame(false); }

TEST(CudaExecutorTest, OneStepBehindIsTheSameWithGraphs) { ExpectOneStepBehindIsTheSame(true); }

}  // namespace
}  // namespace folio::model::testing
