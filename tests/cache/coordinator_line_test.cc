// The order of requests of several workers that wait for pages.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

class LineTest : public ::testing::Test {
 protected:
  // One layer of 12 pages of 4 tokens.
  LineTest() : harness_({.pages = 12, .layers = 1, .orphan_ttl = absl::Seconds(60)}) {}
  void TearDown() override { EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus()); }

  OpenRequest Ask(WorkerId worker, const std::string& tenant, uint32_t prompt = 20) const {
    OpenRequest request = Request(worker, prompt, 4, FullCache());
    request.waits_for_room = true;
    request.tenant = tenant;
    return request;
  }
  bool Opens(WorkerId worker, const std::string& tenant) {
    absl::StatusOr<Opened> opened = harness_.coordinator->Open(Ask(worker, tenant));
    EXPECT_TRUE(opened.ok() || MayFitLater(opened.status())) << opened.status();
    return opened.ok();
  }

  Harness harness_;
  WorkerId first_ = harness_.coordinator->AddWorker("first");
  WorkerId second_ = harness_.coordinator->AddWorker("second");
};

TEST_F(LineTest, TheOneThatWasServedLeastComesFirst) {
  WorkerSequence a = MustOpen(*harness_.coordinator, Ask(first_, "many"));
  WorkerSequence b = MustOpen(*harness_.coordinator, Ask(first_, "many"));
  // Its third request waits, and then another tenant's first.
  EXPECT_FALSE(Opens(first_, "many"));
  EXPECT_FALSE(Opens(second_, "one"));
  ASSERT_TRUE(a.Commit(20).ok() && b.Commit(20).ok());
  ASSERT_TRUE(a.Close().ok());
  EXPECT_FALSE(Opens(first_, "many"));  // there is room, and it is the other's turn
  EXPECT_TRUE(Opens(second_, "one"));
  ASSERT_TRUE(b.Close().ok());
  EXPECT_TRUE(Opens(first_, "many"));
}

TEST_F(LineTest, WithinATenantTheOrderIsThatOfArrival) {
  WorkerSequence a = MustOpen(*harness_.coordinator, Ask(first_, "one"));
  WorkerSequence b = MustOpen(*harness_.coordinator, Ask(first_, "one"));
  EXPECT_FALSE(Opens(first_, "one"));
  harness_.clock.Advance(absl::Milliseconds(1));
  EXPECT_FALSE(Opens(second_, "one"));
  ASSERT_TRUE(a.Close().ok());
  EXPECT_FALSE(Opens(second_, "one"));
  EXPECT_TRUE(Opens(first_, "one"));
}

TEST_F(LineTest, AParkedSequenceUsesNoTurnUp) {
  WorkerSequence heavy = MustOpen(*harness_.coordinator, Ask(first_, "many"));
  WorkerSequence light = MustOpen(*harness_.coordinator, Ask(second_, "one", 8));
  EXPECT_FALSE(Opens(first_, "many"));
  EXPECT_FALSE(Opens(second_, "one"));
  ASSERT_TRUE(heavy.Commit(20).ok());
  ASSERT_TRUE(light.Commit(8).ok());
  // That it comes back is no turn of its tenant.
  ASSERT_TRUE(harness_.parking().Park(first_, heavy.id, heavy.epoch).ok());
  ASSERT_TRUE(harness_.parking().Unpark(first_, heavy.id, heavy.epoch).ok());
  EXPECT_FALSE(Opens(first_, "many"));
  EXPECT_FALSE(Opens(second_, "one"));
  ASSERT_TRUE(heavy.Close().ok());
  EXPECT_FALSE(Opens(first_, "many"));
  EXPECT_TRUE(Opens(second_, "one"));
}

TEST_F(LineTest, AWorkerChoosesAmongItsParkedSequences) {
  WorkerSequence heavy = MustOpen(*harness_.coordinator, Ask(first_, "many"));
  ASSERT_TRUE(heavy.Commit(20).ok());
  WorkerSequence light = MustOpen(*harness_.coordinator, Ask(first_, "one"));
  Parking parking = harness_.parking();
  ASSERT_TRUE(parking.Park(first_, heavy.id, heavy.epoch).ok());
  ASSERT_TRUE(parking.Park(first_, light.id, light.epoch).ok());
  WorkerSequence filler = MustOpen(*harness_.coordinator, Ask(second_, "other", 40));
  EXPECT_FALSE(parking.Unpark(first_, light.id, light.epoch).ok());
  ASSERT_TRUE(filler.Close().ok());
  // It asks for the other one now, which does not wait for the turn of the first.
  EXPECT_TRUE(parking.Unpark(first_, heavy.id, heavy.epoch).ok());
}

TEST_F(LineTest, AWorkerInALongStepKeepsItsPlace) {
  WorkerSequence a = MustOpen(*harness_.coordinator, Ask(first_, "one"));
  WorkerSequence b = MustOpen(*harness_.coordinator, Ask(second_, "one"));
  ASSERT_TRUE(a.Commit(20).ok() && b.Commit(20).ok());
  EXPECT_FALSE(Opens(first_, "one"));
  ASSERT_TRUE(b.Close().ok());
  harness_.clock.Advance(absl::Seconds(3));
  EXPECT_FALSE(Opens(second_, "one"));  // although there is room
  // The step is over, and the request was not tried again: its client has left.
  ASSERT_TRUE(a.Commit(1).ok());
  EXPECT_FALSE(Opens(second_, "one"));
  harness_.clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(Opens(second_, "one"));
}

TEST_F(LineTest, AStepThatTakesTooLongHoldsNoOtherBack) {
  const WorkerSequence a = MustOpen(*harness_.coordinator, Ask(first_, "one"));
  WorkerSequence b = MustOpen(*harness_.coordinator, Ask(second_, "one"));
  EXPECT_FALSE(Opens(first_, "one"));
  ASSERT_TRUE(b.Close().ok());
  harness_.clock.Advance(absl::Seconds(9));
  EXPECT_FALSE(Opens(second_, "one"));
  harness_.clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(Opens(second_, "one"));
  ASSERT_TRUE(harness_.coordinator->Close(first_, a.id, a.epoch).ok());
}

TEST_F(LineTest, IsShownToOperatorsAndGoesWithAClaim) {
  OpenRequest request = Ask(first_, "team");
  request.metadata.resume_token = "secret";
  request.urgency.priority = -3;
  const WorkerSequence sequence = MustOpen(*harness_.coordinator, request);
  EXPECT_EQ(harness_.inspector().sequences().at(0).tenant, "team");
  harness_.coordinator->FenceWorker(first_, /*quiesced=*/true);
  const absl::StatusOr<Claimed> claimed =
      harness_.coordinator->Claim({second_, sequence.id, "secret"});
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->tenant, "team");
  EXPECT_EQ(claimed->priority, -3);
}

}  // namespace
}  // namespace folio::cache
