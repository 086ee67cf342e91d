// Workers that die, hang or say goodbye, and what becomes of their pages.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class LeaseTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus()); }
  PoolInfo Pool() { return harness_.inspector().pool(); }

  Harness harness_;
  WorkerId first_ = harness_.coordinator->AddWorker("first");
  WorkerId second_ = harness_.coordinator->AddWorker("second");
  // 8 pages held and 8 reserved by the first, 4 held by the second.
  WorkerSequence a_ = MustOpen(*harness_.coordinator, Request(first_, 10, 20, FullCache()));
  WorkerSequence b_ = MustOpen(*harness_.coordinator, Request(second_, 5, 3, FullCache()));
};

TEST_F(LeaseTest, FencingQuarantinesUntilTheProcessIsGone) {
  harness_.coordinator->FenceWorker(first_, /*quiesced=*/false);
  EXPECT_EQ(Pool().quarantined, PageCount(8));
  EXPECT_EQ(Pool().held, PageCount(4));
  EXPECT_EQ(Pool().reserved, PageCount(0));
  EXPECT_EQ(Pool().sequences, 1U);
  ASSERT_EQ(Pool().workers.size(), 1U);
  EXPECT_EQ(Pool().workers[0].name, "second");
  EXPECT_EQ(Pool().workers[0].sequences, 1U);
  harness_.coordinator->FenceWorker(first_, false);
  EXPECT_EQ(Pool().quarantined, PageCount(8));
  harness_.coordinator->ConfirmExited(first_);
  EXPECT_EQ(Pool().quarantined, PageCount(0));
  EXPECT_EQ(Pool().free, PageCount(60));
  harness_.coordinator->ConfirmExited(first_);
  harness_.coordinator->FenceWorker(first_, false);
  EXPECT_EQ(Pool().free, PageCount(60));
  EXPECT_TRUE(b_.Commit(5).ok());
}

TEST_F(LeaseTest, QuarantinedPagesAreNotGivenOut) {
  harness_.coordinator->FenceWorker(first_, false);
  absl::StatusOr<Opened> opened = harness_.coordinator->Open(
      Request(second_, 100, 4, FullCache()));  // 52 pages, all that is free
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (const PageList& layer : opened->pages) {
    for (PageRef page : layer) {
      for (const PageList& fenced : a_.tables) EXPECT_THAT(fenced, Not(Contains(page)));
    }
  }
  EXPECT_EQ(Pool().free, PageCount(0));
}

TEST_F(LeaseTest, AnOrderlyGoodbyeFreesAtOnce) {
  harness_.coordinator->FenceWorker(first_, /*quiesced=*/true);
  EXPECT_EQ(Pool().quarantined, PageCount(0));
  EXPECT_EQ(Pool().free, PageCount(60));
  EXPECT_EQ(harness_.coordinator->Renew(first_).code(), absl::StatusCode::kNotFound);
}

TEST_F(LeaseTest, DeathProvenWithoutFencingFreesAtOnce) {
  harness_.coordinator->ConfirmExited(first_);
  EXPECT_EQ(Pool().free, PageCount(60));
  EXPECT_EQ(Pool().sequences, 1U);
}

TEST_F(LeaseTest, ExpiryFencesTheSilentOnly) {
  harness_.clock.Advance(absl::Seconds(9));
  EXPECT_TRUE(harness_.coordinator->Renew(second_).ok());
  EXPECT_THAT(harness_.coordinator->FenceExpired(), IsEmpty());
  EXPECT_EQ(Pool().workers[0].lease_remaining, absl::Seconds(1));
  EXPECT_EQ(Pool().workers[1].lease_remaining, absl::Seconds(10));
  harness_.clock.Advance(absl::Seconds(2));
  EXPECT_EQ(Pool().workers[0].lease_remaining, absl::ZeroDuration());
  EXPECT_THAT(harness_.coordinator->FenceExpired(), ElementsAre(first_));
  EXPECT_THAT(harness_.coordinator->FenceExpired(), IsEmpty());
  EXPECT_EQ(Pool().quarantined, PageCount(8));
}

TEST_F(LeaseTest, EachCallRenews) {
  harness_.clock.Advance(absl::Seconds(6));
  ASSERT_TRUE(b_.Commit(5).ok());
  ASSERT_TRUE(harness_.coordinator->Open(Request(first_, 1, 1, FullCache())).ok());
  harness_.clock.Advance(absl::Seconds(6));
  // A refused call is a sign of life as well.
  EXPECT_EQ(harness_.coordinator->Close(second_, b_.id, LeaseEpoch(9)).code(), kRefused);
  EXPECT_FALSE(Ack(*harness_.coordinator, first_, {a_.id, a_.epoch, PlanEpoch(1)}).ok());
  harness_.clock.Advance(absl::Seconds(6));
  EXPECT_THAT(harness_.coordinator->FenceExpired(), IsEmpty());
  EXPECT_EQ(Pool().workers.size(), 2U);
}

TEST_F(LeaseTest, AFencedWorkerIsToldSo) {
  harness_.coordinator->FenceWorker(first_, false);
  const Snapshot before = Look(*harness_.coordinator);
  for (const absl::Status& status :
       {a_.Commit(3).status(), a_.Close(), harness_.coordinator->Renew(first_),
        Ack(*harness_.coordinator, first_, {a_.id, a_.epoch, PlanEpoch(1)}).status(),
        harness_.coordinator->Open(Request(first_, 1, 1, FullCache())).status()}) {
    EXPECT_EQ(status.code(), kRefused);
    EXPECT_THAT(std::string(status.message()), HasSubstr("worker 1 (first) was fenced"));
  }
  EXPECT_EQ(Look(*harness_.coordinator), before);
}

TEST_F(LeaseTest, AgeAndLabelAreReported) {
  OpenRequest request = Request(second_, 5, 3, FullCache());
  request.metadata.label = "night batch";
  ASSERT_TRUE(harness_.coordinator->Open(request).ok());
  harness_.clock.Advance(absl::Seconds(3));
  const std::vector<SequenceInfo> infos = harness_.inspector().sequences();
  ASSERT_EQ(infos.size(), 3U);
  EXPECT_EQ(infos[2].label, "night batch");
  EXPECT_EQ(infos[2].age, absl::Seconds(3));
  EXPECT_EQ(infos[2].worker, second_);
}

}  // namespace
}  // namespace folio::cache
