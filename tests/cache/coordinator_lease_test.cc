// Workers that die, hang or say goodbye, and what becomes of their pages.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_rig.h"

namespace folio::cache {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;

class LeaseTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(rig_.coordinator->CheckInvariants(), absl::OkStatus()); }
  PoolInfo Pool() { return rig_.coordinator->pool(); }

  Rig rig_;
  WorkerId first_ = rig_.coordinator->AddWorker("first");
  WorkerId second_ = rig_.coordinator->AddWorker("second");
  // 8 pages held and 8 reserved by the first, 4 held by the second.
  WorkerSequence a_ = MustOpen(*rig_.coordinator, Request(first_, 10, 20, FullCache()));
  WorkerSequence b_ = MustOpen(*rig_.coordinator, Request(second_, 5, 3, FullCache()));
};

TEST_F(LeaseTest, FencingQuarantinesUntilTheProcessIsGone) {
  rig_.coordinator->FenceWorker(first_, /*quiesced=*/false);
  EXPECT_EQ(Pool().quarantined, PageCount(8));
  EXPECT_EQ(Pool().held, PageCount(4));
  EXPECT_EQ(Pool().reserved, PageCount(0));
  EXPECT_EQ(Pool().sequences, 1U);
  ASSERT_EQ(Pool().workers.size(), 1U);
  EXPECT_EQ(Pool().workers[0].name, "second");
  EXPECT_EQ(Pool().workers[0].sequences, 1U);
  rig_.coordinator->FenceWorker(first_, false);
  EXPECT_EQ(Pool().quarantined, PageCount(8));
  rig_.coordinator->ProveGone(first_);
  EXPECT_EQ(Pool().quarantined, PageCount(0));
  EXPECT_EQ(Pool().free, PageCount(60));
  rig_.coordinator->ProveGone(first_);
  rig_.coordinator->FenceWorker(first_, false);
  EXPECT_EQ(Pool().free, PageCount(60));
  EXPECT_TRUE(b_.Commit(5).ok());
}

TEST_F(LeaseTest, QuarantinedPagesAreNotGivenOut) {
  rig_.coordinator->FenceWorker(first_, false);
  absl::StatusOr<Opened> opened =
      rig_.coordinator->Open(Request(second_, 100, 4, FullCache()));  // 52 pages, all that is free
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (const PageList& layer : opened->pages) {
    for (PageRef page : layer) {
      for (const PageList& fenced : a_.tables) EXPECT_THAT(fenced, Not(Contains(page)));
    }
  }
  EXPECT_EQ(Pool().free, PageCount(0));
}

TEST_F(LeaseTest, AnOrderlyGoodbyeFreesAtOnce) {
  rig_.coordinator->FenceWorker(first_, /*quiesced=*/true);
  EXPECT_EQ(Pool().quarantined, PageCount(0));
  EXPECT_EQ(Pool().free, PageCount(60));
  EXPECT_EQ(rig_.coordinator->Renew(first_).code(), absl::StatusCode::kNotFound);
}

TEST_F(LeaseTest, DeathProvenWithoutFencingFreesAtOnce) {
  rig_.coordinator->ProveGone(first_);
  EXPECT_EQ(Pool().free, PageCount(60));
  EXPECT_EQ(Pool().sequences, 1U);
}

TEST_F(LeaseTest, ExpiryFencesTheSilentOnly) {
  rig_.clock.Advance(absl::Seconds(9));
  EXPECT_TRUE(rig_.coordinator->Renew(second_).ok());
  EXPECT_THAT(rig_.coordinator->FenceExpired(), IsEmpty());
  EXPECT_EQ(Pool().workers[0].lease_remaining, absl::Seconds(1));
  EXPECT_EQ(Pool().workers[1].lease_remaining, absl::Seconds(10));
  rig_.clock.Advance(absl::Seconds(2));
  EXPECT_EQ(Pool().workers[0].lease_remaining, absl::ZeroDuration());
  EXPECT_THAT(rig_.coordinator->FenceExpired(), ElementsAre(first_));
  EXPECT_THAT(rig_.coordinator->FenceExpired(), IsEmpty());
  EXPECT_EQ(Pool().quarantined, PageCount(8));
}

TEST_F(LeaseTest, EachCallRenews) {
  rig_.clock.Advance(absl::Seconds(6));
  ASSERT_TRUE(b_.Commit(5).ok());
  ASSERT_TRUE(rig_.coordinator->Open(Request(first_, 1, 1, FullCache())).ok());
  rig_.clock.Advance(absl::Seconds(6));
  // A refused call is a sign of life as well.
  EXPECT_EQ(rig_.coordinator->Close(second_, b_.id, LeaseEpoch(9)).code(), kRefused);
  EXPECT_FALSE(rig_.coordinator->Ack(first_, a_.id, a_.epoch, PlanEpoch(1)).ok());
  rig_.clock.Advance(absl::Seconds(6));
  EXPECT_THAT(rig_.coordinator->FenceExpired(), IsEmpty());
  EXPECT_EQ(Pool().workers.size(), 2U);
}

TEST_F(LeaseTest, AFencedWorkerIsToldSo) {
  rig_.coordinator->FenceWorker(first_, false);
  const Snapshot before = Look(*rig_.coordinator);
  for (const absl::Status& status :
       {a_.Commit(3).status(), a_.Close(), rig_.coordinator->Renew(first_),
        rig_.coordinator->Ack(first_, a_.id, a_.epoch, PlanEpoch(1)).status(),
        rig_.coordinator->Open(Request(first_, 1, 1, FullCache())).status()}) {
    EXPECT_EQ(status.code(), kRefused);
    EXPECT_THAT(std::string(status.message()), HasSubstr("worker 1 (first) was fenced"));
  }
  EXPECT_EQ(Look(*rig_.coordinator), before);
}

TEST_F(LeaseTest, AgeAndLabelAreReported) {
  OpenRequest request = Request(second_, 5, 3, FullCache());
  request.notes.label = "night batch";
  ASSERT_TRUE(rig_.coordinator->Open(request).ok());
  rig_.clock.Advance(absl::Seconds(3));
  const std::vector<SequenceInfo> infos = rig_.coordinator->sequences();
  ASSERT_EQ(infos.size(), 3U);
  EXPECT_EQ(infos[2].label, "night batch");
  EXPECT_EQ(infos[2].age, absl::Seconds(3));
  EXPECT_EQ(infos[2].worker, second_);
}

}  // namespace
}  // namespace folio::cache
