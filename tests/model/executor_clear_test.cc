#include <string>

#include "gtest/gtest.h"
#include "tests/model/clear_script.h"
#include "tests/model/executor_harness.h"

namespace folio::model::testing {
namespace {

class ExecutorClearTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ExecutorClearTest, PagesOfOtherTenantsAreCleared) {
  ExecutorHarness harness(GetParam());
  EXPECT_EQ(PlayClearing(harness.executor(), harness.pool()), "");
}

INSTANTIATE_TEST_SUITE_P(Families, ExecutorClearTest, ::testing::ValuesIn(OpsNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace folio::model::testing
