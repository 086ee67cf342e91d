// This suite tests every Collective, with each kind and number of ranks.
#ifndef FOLIO_TESTS_COLLECTIVE_CONFORMANCE_H_
#define FOLIO_TESTS_COLLECTIVE_CONFORMANCE_H_

#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/collective/ranks.h"

namespace folio::collective::testing {

class CollectiveTest : public ::testing::TestWithParam<std::tuple<RanksAre, uint32_t>> {
 protected:
  static RanksAre kind() { return std::get<0>(GetParam()); }
  static uint32_t ranks() { return std::get<1>(GetParam()); }

  // Small buffers, so that most messages take several turns.
  static std::vector<std::string> Run(const RankBody& body, size_t buffer_bytes = 256) {
    return RunRanks(kind(), ranks(), buffer_bytes, body);
  }
  static void ExpectGood(const std::vector<std::string>& said) {
    for (size_t rank = 0; rank < said.size(); ++rank) EXPECT_EQ(said[rank], "") << "rank " << rank;
  }
};

inline std::string CaseName(const ::testing::TestParamInfo<std::tuple<RanksAre, uint32_t>>& info) {
  constexpr const char* kNames[] = {"Threads", "ThreadsOfOneMapping", "Processes"};
  return absl::StrCat(std::get<1>(info.param),
                      kNames[static_cast<size_t>(std::get<0>(info.param))]);
}

#define FOLIO_INSTANTIATE_COLLECTIVE_TEST(suite)                                               \
  INSTANTIATE_TEST_SUITE_P(                                                                    \
      Shared, suite,                                                                           \
      ::testing::Combine(::testing::Values(RanksAre::kThreads, RanksAre::kThreadsOfOneMapping, \
                                           RanksAre::kProcesses),                              \
                         ::testing::Values(2u, 3u, 4u)),                                       \
      CaseName)

}  // namespace folio::collective::testing

#endif  // FOLIO_TESTS_COLLECTIVE_CONFORMANCE_H_
