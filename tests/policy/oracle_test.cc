// The decisions of tests/oracle/policies.json, to the token.
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "services/policy/registry.h"
#include "tests/policy/score_table.h"

namespace folio::policy {
namespace {

constexpr uint32_t kPageTokens = 16;

nlohmann::json Cases() {
  std::ifstream file(FOLIO_ORACLE_DIR "/policies.json");
  return nlohmann::json::parse(file);
}

TEST(PolicyOracle, PagedEvictionAgreesExactly) {
  const nlohmann::json cases = Cases();
  ASSERT_GE(cases.size(), 24U);
  const auto policy = MakePolicy(PagedEvictionSpec());
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const nlohmann::json& c = cases[i];
    const ScoreTable table(c["scores"].get<std::vector<std::vector<float>>>(), kPageTokens);
    ASSERT_EQ(table.view().tokens.value(), c["tokens"].get<uint32_t>());
    const Limits limits = MakeLimits(c["budget"].get<uint32_t>(), kPageTokens, kPageTokens);
    EXPECT_EQ(Values(policy->SelectPrefill(table.view(), limits)),
              c["prefill_keep"].get<std::vector<uint32_t>>());
    EXPECT_EQ(policy->SelectDecode(table.whole_pages(), limits).value(),
              c["decode_drop_page"].get<uint32_t>());
  }
}

}  // namespace
}  // namespace folio::policy
