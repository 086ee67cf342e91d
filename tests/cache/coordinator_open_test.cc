// Admission: what is reserved, what is refused, and with which words.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"

namespace folio::cache {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class OpenTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus()); }

  Harness harness_;  // 64 pages, 2 layers, pages of 4
  WorkerId worker_ = harness_.coordinator->AddWorker("w");
};

TEST_F(OpenTest, GivesThePromptsPagesAndOneAhead) {
  absl::StatusOr<Opened> opened = harness_.coordinator->Open(Request(worker_, 10, 20, FullCache()));
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_EQ(opened->pages.size(), 2U);
  for (const PageList& layer : opened->pages) EXPECT_EQ(layer.size(), 4U);
  const PoolInfo pool = harness_.inspector().pool();
  EXPECT_EQ(pool.held, PageCount(8));
  EXPECT_EQ(pool.reserved, PageCount(8));  // 30 tokens: 8 pages per layer, 4 of them held
  EXPECT_EQ(pool.free, PageCount(56));
  EXPECT_EQ(pool.sequences, 1U);
}

TEST_F(OpenTest, NeverGivesMoreThanTheTokensNeed) {
  absl::StatusOr<Opened> opened = harness_.coordinator->Open(Request(worker_, 10, 2, FullCache()));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->pages[0].size(), 3U);
  EXPECT_EQ(harness_.inspector().pool().reserved, PageCount(0));
}

TEST_F(OpenTest, ReservesBudgetAndTwoPagesWhenEvicting) {
  // Within the budget: 12 tokens of 1000.
  auto small =
      harness_.coordinator->Open(Request(worker_, 6, 1000, Cache(policy::PagedEvictionSpec(), 12)));
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ(small->pages[0].size(), 3U);
  EXPECT_EQ(harness_.inspector().pool().reserved, PageCount(2 * (3 + 2 - 3)));
  // Over the budget: the prompt's pages are the worst case.
  auto large =
      harness_.coordinator->Open(Request(worker_, 40, 1000, Cache(policy::StreamingLlmSpec(), 12)));
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ(large->pages[1].size(), 11U);
  EXPECT_EQ(harness_.inspector().pool().reserved, PageCount(4));
}

TEST_F(OpenTest, PromisedPagesAreNotForOthers) {
  // 2 x 24 pages promised, 2 x 2 held.
  ASSERT_TRUE(harness_.coordinator->Open(Request(worker_, 4, 92, FullCache())).ok());
  EXPECT_EQ(harness_.inspector().pool().free, PageCount(60));
  const Snapshot before = Look(*harness_.coordinator);
  const absl::Status refused =
      harness_.coordinator->Open(Request(worker_, 30, 6, FullCache())).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  const std::string message(refused.message());
  EXPECT_THAT(message, HasSubstr("wanted 18 pages (9 in each of 2 layers)"));
  EXPECT_THAT(message, HasSubstr("free 60"));
  EXPECT_THAT(message, HasSubstr("reserved 44"));
  EXPECT_THAT(message, HasSubstr("held 4 by 1 sequences"));
  EXPECT_THAT(message, HasSubstr("room comes when sequences end"));
  EXPECT_THAT(message, Not(HasSubstr("never fits")));
  EXPECT_EQ(Look(*harness_.coordinator), before);
  EXPECT_TRUE(harness_.coordinator->Open(Request(worker_, 26, 6, FullCache())).ok());
}

TEST_F(OpenTest, SaysWhenASequenceCanNeverFit) {
  const absl::Status refused =
      harness_.coordinator->Open(Request(worker_, 100, 100, FullCache())).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  const std::string message(refused.message());
  EXPECT_THAT(message, HasSubstr("never fits: wanted 100 pages"));
  EXPECT_THAT(message, HasSubstr("the whole pool has 64"));
  EXPECT_THAT(message, HasSubstr("choose a policy that evicts"));
  EXPECT_THAT(
      std::string(harness_.coordinator
                      ->Open(Request(worker_, 200, 1, Cache(policy::PagedEvictionSpec(), 12)))
                      .status()
                      .message()),
      HasSubstr("never fits"));
  // The pool exactly is enough.
  EXPECT_TRUE(harness_.coordinator->Open(Request(worker_, 100, 28, FullCache())).ok());
  EXPECT_EQ(harness_.inspector().pool().free, PageCount(64 - 2 * 26));
}

TEST_F(OpenTest, QuarantinedPagesAreNamed) {
  const WorkerId other = harness_.coordinator->AddWorker("other");
  ASSERT_TRUE(harness_.coordinator->Open(Request(other, 100, 20, FullCache())).ok());
  harness_.coordinator->FenceWorker(other, false);
  const absl::Status refused =
      harness_.coordinator->Open(Request(worker_, 100, 20, FullCache())).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("quarantined 52"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("fenced worker's process exits"));
}

struct BadOpen {
  const char* name;
  OpenRequest request;
  absl::StatusCode code;
  const char* words;
};

class BadOpenTest : public ::testing::TestWithParam<BadOpen> {};

TEST_P(BadOpenTest, IsRefusedAndChangesNothing) {
  Harness harness;
  const WorkerId live = harness.coordinator->AddWorker("live");      // id 1
  const WorkerId fenced = harness.coordinator->AddWorker("fenced");  // id 2
  ASSERT_EQ(live, WorkerId(1));
  harness.coordinator->FenceWorker(fenced, false);
  const Snapshot before = Look(*harness.coordinator);
  const absl::Status status = harness.coordinator->Open(GetParam().request).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().words));
  EXPECT_EQ(Look(*harness.coordinator), before);
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadOpenTest,
    ::testing::Values(
        BadOpen{"EmptyPrompt", Request(WorkerId(1), 0, 5, FullCache()),
                absl::StatusCode::kInvalidArgument, "prompt_tokens is empty"},
        BadOpen{"BadBudget", Request(WorkerId(1), 3, 5, Cache(policy::StreamingLlmSpec(), 13)),
                absl::StatusCode::kInvalidArgument, "budget_tokens 13"},
        BadOpen{"BudgetWithFull", Request(WorkerId(1), 3, 5, Cache(policy::FullSpec(), 12)),
                absl::StatusCode::kInvalidArgument, "budget_tokens 12"},
        BadOpen{"TooLongForPositions", Request(WorkerId(1), 3, UINT32_MAX, FullCache()),
                absl::StatusCode::kInvalidArgument, "max_new_tokens 4294967295"},
        BadOpen{"HugeButCountable", Request(WorkerId(1), 3, UINT32_MAX - 3, FullCache()),
                absl::StatusCode::kResourceExhausted, "wanted 2147483648 pages"},
        BadOpen{"UnknownWorker", Request(WorkerId(9), 3, 5, FullCache()),
                absl::StatusCode::kNotFound, "worker 9 is not attached"},
        BadOpen{"FencedWorker", Request(WorkerId(2), 3, 5, FullCache()),
                absl::StatusCode::kFailedPrecondition, "worker 2 (fenced) was fenced"}),
    [](const auto& info) { return info.param.name; });

TEST(OpenWithoutScores, RefusesPoliciesThatReadThem) {
  HarnessOptions options;
  options.score_board = false;
  Harness harness(options);
  const WorkerId worker = harness.coordinator->AddWorker("w");
  const absl::Status refused =
      harness.coordinator->Open(Request(worker, 3, 5, Cache(policy::PagedEvictionSpec(), 12)))
          .status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("score board"));
  EXPECT_TRUE(
      harness.coordinator->Open(Request(worker, 3, 5, Cache(policy::StreamingLlmSpec(), 12))).ok());
}

}  // namespace
}  // namespace folio::cache
