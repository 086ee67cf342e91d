// Quotas of tenants: what is refused beyond them, and what they leave alone.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/optimistic_fixture.h"

namespace folio::cache {
namespace {

using ::testing::HasSubstr;

class QuotaTest : public OptimisticTest {
 protected:
  absl::StatusOr<Opened> Open(const std::string& tenant, uint32_t prompt = 4, uint32_t most = 4) {
    OpenRequest request = Asking(prompt, most, worker_);
    request.tenant = tenant;
    return harness_.coordinator->Open(request);
  }
  void Set(const std::string& tenant, const Quota& quota) {
    ASSERT_TRUE(harness_.quotas.Set(tenant, quota).ok());
  }
  // Ends a sequence.
  void End(const Opened& opened) {
    ASSERT_TRUE(harness_.coordinator->Close(worker_, opened.sequence, opened.lease_epoch).ok());
  }
  static uint32_t Needed(const SequenceInfo& info) { return info.needed_pages.value(); }
};

TEST_F(QuotaTest, SequencesBeyondItAreRefusedAndDoNotWait) {
  Set("a", {.sequences = 2});
  const auto first = Open("a");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(Open("a").ok());
  const absl::Status third = Open("a").status();
  EXPECT_TRUE(absl::IsResourceExhausted(third));
  EXPECT_EQ(
      third.message(),
      "quota of tenant \"a\" (at most 2 sequences): 2 are open; try again when one has ended");
  EXPECT_FALSE(MayFitLater(third));
  EXPECT_TRUE(Open("b").ok()) << "another tenant";
  EXPECT_TRUE(Open("").ok()) << "a request without a tenant";
  End(*first);
  EXPECT_TRUE(Open("a").ok());
  Set("a", {});
  EXPECT_TRUE(Open("a").ok());
}

TEST_F(QuotaTest, PagesAreCountedAsSequencesMayComeToNeedThem) {
  const auto one = Open("a", 4, 8);
  ASSERT_TRUE(one.ok());
  const uint32_t needed = Needed(harness_.inspector().sequence(one->sequence)->info);
  EXPECT_EQ(needed, 3U) << "12 tokens in pages of 4";
  Set("a", {.pages = PageCount(2 * needed)});
  ASSERT_TRUE(Open("a", 4, 8).ok());
  const absl::Status full = Open("a", 4, 8).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_THAT(full.message(),
              HasSubstr("2 open sequences may come to need 6 pages, and this one 3"));
  const absl::Status never = Open("a", 40, 8).status();
  EXPECT_THAT(never.message(), HasSubstr("never fits, because the sequence may come to need 12"));
  EXPECT_TRUE(Open("b", 4, 8).ok());
}

TEST_F(QuotaTest, WhatIsOpenStaysWhenAQuotaIsSet) {
  const auto first = Open("a"), second = Open("a");
  ASSERT_TRUE(second.ok());
  Set("a", {.sequences = 1, .pages = PageCount(100)});
  EXPECT_EQ(harness_.inspector().pool().sequences, 2U);
  EXPECT_THAT(Open("a").status().message(),
              HasSubstr("(at most 1 sequence and 100 pages): 2 are open"));
  End(*first);
  EXPECT_FALSE(Open("a").ok()) << "it has as many as it may";
}

TEST_F(QuotaTest, ParkedOnesAndOrphansCount) {
  const auto opened = Open("a");
  ASSERT_TRUE(opened.ok());
  Set("a", {.sequences = 1});
  ASSERT_TRUE(harness_.parking().Park(worker_, opened->sequence, opened->lease_epoch).ok());
  EXPECT_FALSE(Open("a").ok());
  harness_.coordinator->FenceWorker(worker_, /*quiesced=*/true);
  worker_ = harness_.coordinator->AddWorker("next");
  EXPECT_FALSE(Open("a").ok());
}

TEST_F(QuotaTest, RequestsBeyondThoseOfAMinuteAreRefused) {
  Set("a", {.requests_per_minute = 2});
  const auto first = Open("a"), second = Open("a");
  ASSERT_TRUE(second.ok()) << "a tenant that was idle may begin all at once";
  const absl::Status third = Open("a").status();
  EXPECT_TRUE(absl::IsResourceExhausted(third));
  EXPECT_FALSE(MayFitLater(third));
  EXPECT_THAT(third.message(), HasSubstr("quota of tenant \"a\" (at most 2 requests a minute): the "
                                         "next request may come in 29."));
  EXPECT_TRUE(Open("b").ok()) << "another tenant";
  End(*first);
  EXPECT_FALSE(Open("a").ok()) << "an end gives nothing back";
  harness_.clock.Advance(absl::Seconds(30));
  EXPECT_TRUE(Open("a").ok());
  EXPECT_FALSE(Open("a").ok());
  harness_.clock.Advance(absl::Minutes(10));
  EXPECT_TRUE(Open("a").ok());
  EXPECT_TRUE(Open("a").ok());
  EXPECT_FALSE(Open("a").ok()) << "a long pause saves up no more than a minute's";
  Set("a", {.requests_per_minute = 120});
  EXPECT_TRUE(Open("a").ok()) << "a new quota counts at once";
}

TEST_F(QuotaTest, ARefusedRequestTakesNoneOfAMinutesAndOneThatWaitsTakesOne) {
  Set("a", {.sequences = 1, .requests_per_minute = 2});
  const auto first = Open("a");
  ASSERT_TRUE(first.ok());
  for (int i = 0; i < 5; ++i) EXPECT_THAT(Open("a").status().message(), HasSubstr("1 are open"));
  End(*first);
  // A pool of 20 pages is full now, so the second one waits, and asks again and again.
  const auto all = Open("b", 72, 4);
  ASSERT_TRUE(all.ok()) << all.status();
  const auto ask = [&](const std::string& token) {
    OpenRequest request = Asking(8, 4, worker_);
    request.tenant = "a";
    request.metadata.resume_token = token;
    return harness_.coordinator->Open(request);
  };
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(MayFitLater(ask("second").status())) << i;
  const absl::Status third = ask("third").status();
  EXPECT_FALSE(MayFitLater(third)) << third;
  EXPECT_THAT(third.message(), HasSubstr("the next request may come in"));
  End(*all);
  const auto second = ask("second");
  ASSERT_TRUE(second.ok()) << second.status();
  End(*second);
  EXPECT_FALSE(ask("second").ok()) << "it no longer waits";
}

TEST(TenantQuotas, AreBounded) {
  const RealClock clock;
  TenantQuotas quotas(&clock);
  for (size_t at = 0; at < TenantQuotas::kMost; ++at) {
    ASSERT_TRUE(quotas.Set(std::to_string(at), {.sequences = 1}).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(quotas.Set("another", {.sequences = 1})));
  EXPECT_TRUE(quotas.Set("7", {.sequences = 2}).ok()) << "it has one already";
  EXPECT_TRUE(quotas.Set("8", {}).ok());
  EXPECT_TRUE(quotas.Set("another", {.pages = PageCount(0)}).ok());
  EXPECT_EQ(quotas.Of("7").sequences, 2U);
  EXPECT_EQ(quotas.Of("8"), Quota{});
  EXPECT_EQ(quotas.Of("another").pages, PageCount(0));
}

}  // namespace
}  // namespace folio::cache
