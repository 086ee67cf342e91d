// The executor of a GPU against the independent reference's generations on the reference model
// (tests/oracle/README.md), in bf16; the test plays the manager, with the real policies.
//
// Wants FOLIO_MODEL, the path of the reference model; FOLIO_ORACLE is where generation.json lies,
// if not where it was. Emulated, it is the start of one short case, since plain loops take seconds
// for a token.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "services/base/check.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/model/oracle_sequence.h"

namespace folio::model::testing {
namespace {

#ifdef FOLIO_EMULATED
constexpr uint32_t kRows = 36, kPages = 400;
constexpr size_t kMax = 20;
constexpr const char* kOnly = "short_paged_eviction_32";
#else
constexpr uint32_t kRows = ManagedSequence::kChunk, kPages = ManagedSequence::kPages;
constexpr size_t kMax = SIZE_MAX;
constexpr const char* kOnly = "";
#endif

std::string OracleFile() {
  const char* folder = std::getenv("FOLIO_ORACLE");
  return std::string(folder != nullptr ? folder : FOLIO_ORACLE_FOLDER) + "/generation.json";
}

// The model, loaded once per program.
CudaHarness& Harness() {
  static CudaHarness* harness = [] {
    const auto source = OpenModel(std::getenv("FOLIO_MODEL"));
    FOLIO_CHECK(source.ok());
    return new CudaHarness(**source, {.max_rows = kRows, .load_threads = 2}, kPages);
  }();
  return *harness;
}

class CudaOracleTest : public ::testing::TestWithParam<OracleCase> {
 protected:
  void SetUp() override {
    if (std::getenv("FOLIO_MODEL") == nullptr) {
      GTEST_SKIP() << "FOLIO_MODEL is not set: the reference model is needed";
    }
    if (GetParam().name.rfind(kOnly, 0) != 0) GTEST_SKIP() << "on a GPU only";
    ASSERT_TRUE(Harness().made().ok()) << Harness().made();
    Harness().pool().TakeBackAll();
  }
  static ManagedSequence Sequence() {
    return {Harness().executor(), Harness().pool(), Harness().board(), GetParam().json};
  }
};

TEST_P(CudaOracleTest, Logprobs) {
  ManagedSequence sequence = Sequence();
  ExpectLogprobs(sequence, GetParam().json, kBfloat16, kMax);
}

TEST_P(CudaOracleTest, GreedyTokens) {
  ManagedSequence sequence = Sequence();
  ExpectGreedyTokens(sequence, GetParam().json, kBfloat16, kMax);
}

INSTANTIATE_TEST_SUITE_P(Reference, CudaOracleTest, ::testing::ValuesIn(OracleCases(OracleFile())),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace folio::model::testing
