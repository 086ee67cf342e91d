// The executor against the independent reference's generations on the reference model
// (tests/oracle/README.md), before any manager: the test plays the manager, with the real policies.
//
// Wants FOLIO_MODEL, the path of the reference model.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

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

const Tolerance& ToleranceOf(const std::string& family) {
  return family == "plain" ? kFloat32 : kBfloat16;
}

// Plain loops take too long for the long prompts, and tests/e2e/test_oracle.py compares these in
// float32 as well.
std::vector<Parameter> Cases() {
  constexpr size_t kLongest = 300;
  std::vector<Parameter> cases;
  for (const OracleCase& one : OracleCases(FOLIO_ORACLE "/generation.json")) {
    if (one.json["prompt_ids"].size() <= kLongest) cases.emplace_back("plain", one);
    cases.emplace_back("auto", one);
  }
  return cases;
}

// The cases whose first token is not a tie. A free run of any other case compares nothing.
std::vector<Parameter> GreedyCases() {
  std::vector<Parameter> cases = Cases();
  std::erase_if(cases, [](const Parameter& one) {
    const auto& [family, oracle] = one;
    return oracle.json["top2_gap"][0].get<double>() < ToleranceOf(family).tie;
  });
  return cases;
}

class OracleTest : public ::testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    if (std::getenv("FOLIO_MODEL") == nullptr) {
      GTEST_SKIP() << "FOLIO_MODEL is not set: the reference model is needed";
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
  const Tolerance& tolerance() const { return ToleranceOf(family()); }

  std::optional<TestPool> pool_;
  std::unique_ptr<Executor> executor_;
  std::optional<ManagedSequence> sequence_;
};

TEST_P(OracleTest, Logprobs) { ExpectLogprobs(*sequence_, oracle(), tolerance()); }

class OracleGreedyTest : public OracleTest {};

TEST_P(OracleGreedyTest, GreedyTokens) { ExpectGreedyTokens(*sequence_, oracle(), tolerance()); }

std::string NameOf(const ::testing::TestParamInfo<Parameter>& info) {
  return absl::StrCat(std::get<0>(info.param), "_", std::get<1>(info.param).name);
}

INSTANTIATE_TEST_SUITE_P(Reference, OracleTest, ::testing::ValuesIn(Cases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Reference, OracleGreedyTest, ::testing::ValuesIn(GreedyCases()), NameOf);

}  // namespace
}  // namespace folio::model::testing
