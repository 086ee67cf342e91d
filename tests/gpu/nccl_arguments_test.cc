// Tests of the arguments that joining a group of GPUs refuses before it needs one, and of its error
// without one.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/model/cuda/nccl_group.h"

namespace folio::kernels::cuda {
namespace {

using testing::HasSubstr;

const std::string& AnId() {
  static const std::string id(128, 'x');
  return id;
}

TEST(NcclArguments, WhoCannotBeARankIsRefused) {
  const auto short_id = NcclGroup::Join({"short", Rank(0), 2});
  EXPECT_EQ(short_id.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(short_id.status().ToString(), HasSubstr("id: 5 bytes are not 128"));
  const auto beyond = NcclGroup::Join({AnId(), Rank(2), 2});
  EXPECT_EQ(beyond.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(beyond.status().ToString(), HasSubstr("rank: 2 is not below ranks = 2"));
}

TEST(NcclArguments, WithoutADriverThatIsSaid) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) GTEST_SKIP() << "there is a GPU";
  const auto group = NcclGroup::Join({AnId(), Rank(0), 2});
  EXPECT_EQ(group.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(group.status().ToString(), HasSubstr("driver"));
}

}  // namespace
}  // namespace folio::kernels::cuda
