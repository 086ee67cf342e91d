// A worker whose process lives on after its session has ended: it attaches again with its previous
// session as the proof that it does not write those pages any more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "services/cache/inspector.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

constexpr uint32_t kHeld = 2U * 3U;  // by each of the two sequences

class AttachAgainTest : public ::testing::Test {
 protected:
  AttachAgainTest() {
    worker_->Join();
    v1::OpenSequence open = SmallOpen(32, 32);
    EXPECT_TRUE(worker_->Open(open).ok());
    open.set_resume_token(kSmallResumeToken);
    const auto resumable = worker_->Open(open);
    EXPECT_TRUE(resumable.ok()) << resumable.status();
    resumable_ = resumable->sequence_id();
    previous_ = worker_->attached();
  }
  ~AttachAgainTest() override {
    EXPECT_EQ(cache::Inspector(harness_.coordinator()).CheckInvariants(), absl::OkStatus());
  }

  // This process lives on, so the pages wait for its end.
  void LoseTheSession() {
    worker_.reset();
    ASSERT_TRUE(Eventually([&] {
      const v1::Pool pool = harness_.PoolState();
      return pool.quarantined_pages() == kHeld && pool.orphans() == 1;
    })) << Show(harness_.PoolState());
  }
  void ExpectEverythingBack(TestWorker& again) {
    const v1::Pool pool = harness_.PoolState();
    EXPECT_EQ(pool.quarantined_pages(), 0U) << Show(pool);
    EXPECT_EQ(pool.free_pages(), pool.total_pages() - kHeld) << Show(pool);
    EXPECT_EQ(pool.workers_size(), 1) << Show(pool);
    const auto claimed = again.Claim(resumable_);
    ASSERT_TRUE(claimed.ok()) << claimed.status();
    EXPECT_EQ(claimed->lease_epoch(), 2U);
  }
  void ExpectNothingBack() {
    TestWorker other(harness_.address());
    other.Follows(previous_);
    other.Join();  // it is a worker like any other
    EXPECT_EQ(harness_.PoolState().quarantined_pages(), kHeld);
    EXPECT_TRUE(absl::IsUnavailable(other.Claim(resumable_).status()));
    EXPECT_TRUE(other.End().ok());
  }

  ManagerHarness harness_{{.orphan_ttl = absl::Minutes(10)}};
  std::unique_ptr<TestWorker> worker_ = std::make_unique<TestWorker>(harness_.address());
  uint64_t resumable_ = 0;
  v1::AttachResponse previous_;
};

TEST_F(AttachAgainTest, PagesReturnAtOnceAndSequencesCanBeClaimed) {
  LoseTheSession();
  TestWorker again(harness_.address());
  again.Follows(previous_);
  again.Join();
  ExpectEverythingBack(again);
}

TEST_F(AttachAgainTest, ASessionThatTheManagerBelievesAliveIsFenced) {
  TestWorker again(harness_.address());
  again.Follows(previous_);
  again.Join();
  ExpectEverythingBack(again);
  EXPECT_TRUE(absl::IsCancelled(worker_->Call().status()));
}

TEST_F(AttachAgainTest, AWrongTokenGivesNothingBack) {
  LoseTheSession();
  const std::string right = previous_.session_token();
  for (const std::string& wrong :
       {std::string(), std::string(right.size(), '0'), right.substr(1), previous_.export_token()}) {
    previous_.set_session_token(wrong);
    ExpectNothingBack();
  }
}

TEST_F(AttachAgainTest, AnUnknownSessionGivesNothingBack) {
  LoseTheSession();
  for (const char* unknown : {"", "w", "w77", "somebody"}) {
    previous_.set_worker_id(unknown);
    ExpectNothingBack();
  }
}

TEST_F(AttachAgainTest, APreviousSessionCountsOnce) {
  LoseTheSession();
  for (int i = 0; i < 3; ++i) {
    TestWorker again(harness_.address());
    again.Follows(previous_);
    again.Join();
    EXPECT_EQ(harness_.PoolState().quarantined_pages(), 0U);
    EXPECT_TRUE(again.End().ok());
  }
}

TEST_F(AttachAgainTest, AManagerThatEndsKeepsThePreviousSessionForTheNext) {
  LoseTheSession();
  EXPECT_TRUE(harness_.server().Drain(absl::Seconds(20), [](absl::Duration) { return false; }));
  TestWorker again(harness_.address());
  again.Follows(previous_);
  EXPECT_TRUE(absl::IsUnavailable(again.Attach().status()));
  EXPECT_EQ(harness_.PoolState().quarantined_pages(), kHeld) << Show(harness_.PoolState());
}

}  // namespace
}  // namespace folio::testing
