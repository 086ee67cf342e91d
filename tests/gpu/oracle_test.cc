// The executor of a GPU against the independent reference's generations on the reference model
// (tests/oracle/README.md), in bf16 and in FP8; the test plays the manager, with the real policies.
//
// Wants FOLIO_MODEL, the path of the reference model; FOLIO_ORACLE is where generation.json lies,
// if not where it was. Emulated, it is the start of one short case, since plain loops take seconds
// for a token.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "kernels/cuda/ops/gemm.h"
#include "services/base/check.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/model/oracle_sequence.h"

namespace folio::model::testing {
namespace {

using kernels::cuda::DataType;

#ifdef FOLIO_EMULATED
constexpr uint32_t kRows = 36, kPages = 400;
// In bf16 the kernels of small batches are emulated lane by lane, which takes seconds for a token.
constexpr size_t kMax = 8, kMaxInFp8 = 20;
constexpr const char* kOnly = "short_paged_eviction_32";
#else
constexpr uint32_t kRows = ManagedSequence::kChunk, kPages = ManagedSequence::kPages;
constexpr size_t kMax = SIZE_MAX, kMaxInFp8 = SIZE_MAX;
constexpr const char* kOnly = "";
#endif

std::string OracleFile() {
  const char* folder = std::getenv("FOLIO_ORACLE");
  return std::string(folder != nullptr ? folder : FOLIO_ORACLE_FOLDER) + "/generation.json";
}

// The model in one type of its layers' matrices, loaded once per program.
template <DataType type>
CudaHarness& Harness() {
  static CudaHarness* harness = [] {
    const auto source = OpenModel(std::getenv("FOLIO_MODEL"));
    FOLIO_CHECK(source.ok());
    const CudaHarnessOptions options{.max_rows = kRows, .type = type, .load_threads = 2};
    return new CudaHarness(**source, options, kPages);
  }();
  return *harness;
}

// Codes of E4M3 have four significant bits, in weights and in activations, so differences are twice
// what bf16 is allowed. Emulated, log-probabilities of the short case differ by 0.11 on average and
// by 0.41 at worst, and by 0.010 and 0.040 in bf16.
constexpr Tolerance kInFp8 = {1e9,
                              2 * kBfloat16.full_mean,
                              1e9,
                              2 * kBfloat16.evicted_mean,
                              2 * kBfloat16.tie,
                              2 * kBfloat16.kept - 1};

template <DataType type>
class OracleTest : public ::testing::TestWithParam<OracleCase> {
 protected:
  void SetUp() override {
    if (std::getenv("FOLIO_MODEL") == nullptr) {
      GTEST_SKIP() << "FOLIO_MODEL is not set: the reference model is needed";
    }
    if (GetParam().name.rfind(kOnly, 0) != 0) GTEST_SKIP() << "on a GPU only";
    if (type == DataType::kE4M3) {
      const absl::Status served = kernels::cuda::Gemm::CheckRowScales();
      if (!served.ok()) GTEST_SKIP() << served;
    }
    ASSERT_TRUE(Harness<type>().made().ok()) << Harness<type>().made();
    Harness<type>().pool().TakeBackAll();
  }
  static ManagedSequence Sequence() {
    CudaHarness& harness = Harness<type>();
    return {harness.executor(), harness.pool(), harness.board(), GetParam().json};
  }
  static constexpr const Tolerance& kNear = type == DataType::kE4M3 ? kInFp8 : kBfloat16;
};

using CudaOracleTest = OracleTest<DataType::kBf16>;
using CudaFp8OracleTest = OracleTest<DataType::kE4M3>;

TEST_P(CudaOracleTest, Logprobs) {
  ManagedSequence sequence = Sequence();
  ExpectLogprobs(sequence, GetParam().json, kNear, kMax);
}

TEST_P(CudaOracleTest, GreedyTokens) {
  ManagedSequence sequence = Sequence();
  ExpectGreedyTokens(sequence, GetParam().json, kNear, kMax);
}

TEST_P(CudaFp8OracleTest, Logprobs) {
  ManagedSequence sequence = Sequence();
  ExpectLogprobs(sequence, GetParam().json, kNear, kMaxInFp8);
}

TEST_P(CudaFp8OracleTest, GreedyTokens) {
  ManagedSequence sequence = Sequence();
  ExpectGreedyTokens(sequence, GetParam().json, kNear, kMaxInFp8);
}

std::string NameOfCase(const ::testing::TestParamInfo<OracleCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Reference, CudaOracleTest, ::testing::ValuesIn(OracleCases(OracleFile())),
                         NameOfCase);
INSTANTIATE_TEST_SUITE_P(Reference, CudaFp8OracleTest,
                         ::testing::ValuesIn(OracleCases(OracleFile())), NameOfCase);

}  // namespace
}  // namespace folio::model::testing
