// The executor against the independent reference's generations on the reference model
// (tests/oracle/README.md), before any manager: the test plays the manager, with the real policies.
//
// Wants FOLIO_MODEL, the path of the reference model. The cases with long prompts take a while and
// run when FOLIO_ORACLE_ALL is set.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"
#include "services/model/cpu/cpu_executor.h"
#include "tests/model/executor_harness.h"
#include "tests/model/oracle_sequence.h"

namespace folio::model::testing {
namespace {

// The model, loaded once per program and family.
std::shared_ptr<const ModelWeights> Weights(const std::string& family) {
  static std::map<std::string, std::shared_ptr<const ModelWeights>> loaded;
  auto& weights = loaded[family];
  if (weights == nullptr) {
    const char* path = std::getenv("FOLIO_MODEL");
    FOLIO_CHECK(path != nullptr);
    const auto source = OpenModel(path);
    FOLIO_CHECK(source.ok());
    kernels::ThreadPool threads(2);
    weights = *LoadWeights(**source, *OpsNamed(family), threads);
  }
  return weights;
}

using Parameter = std::tuple<std::string, OracleCase>;

class OracleTest : public ::testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    if (std::getenv("FOLIO_MODEL") == nullptr) {
      GTEST_SKIP() << "FOLIO_MODEL is not set: the reference model is needed";
    }
    if (oracle()["prompt_ids"].size() > 300 && std::getenv("FOLIO_ORACLE_ALL") == nullptr) {
      GTEST_SKIP() << "a long prompt: set FOLIO_ORACLE_ALL to run it";
    }
    const auto weights = Weights(family());
    pool_.emplace(weights->config, ManagedSequence::kPages);
    CpuExecutorOptions options;
    options.max_rows = ManagedSequence::kChunk;
    executor_ = *MakeCpuExecutor(weights, OpsNamed(family()), 2, pool_->view(), options);
    sequence_.emplace(*executor_, *pool_, pool_->view(), oracle());
  }
  const std::string& family() const { return std::get<0>(GetParam()); }
  const nlohmann::json& oracle() const { return std::get<1>(GetParam()).json; }
  const Tolerance& tolerance() const { return family() == "plain" ? kFloat32 : kBfloat16; }

  std::optional<TestPool> pool_;
  std::unique_ptr<Executor> executor_;
  std::optional<ManagedSequence> sequence_;
};

TEST_P(OracleTest, Logprobs) { ExpectLogprobs(*sequence_, oracle(), tolerance()); }

TEST_P(OracleTest, GreedyTokens) { ExpectGreedyTokens(*sequence_, oracle(), tolerance()); }

INSTANTIATE_TEST_SUITE_P(
    Reference, OracleTest,
    ::testing::Combine(::testing::Values("plain", "auto"),
                       ::testing::ValuesIn(OracleCases(FOLIO_ORACLE "/generation.json"))),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param), "_", std::get<1>(info.param).name);
    });

}  // namespace
}  // namespace folio::model::testing
