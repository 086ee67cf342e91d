// A worker in a process of its own is lost, and another one goes on with its sequence: when, and
// only when, the process has ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "absl/strings/numbers.h"
#include "services/cache/inspector.h"
#include "tests/manager/child_process.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kHeld = 2U * 5U;

class OrphanTest : public ::testing::Test {
 protected:
  explicit OrphanTest(const HarnessOptions& options = {.orphan_ttl = absl::Seconds(60)})
      : harness_(options) {
    const std::string line = doomed_.ReadUntil("holding sequence");
    EXPECT_NE(line, "") << doomed_.output();
    other_.Join();
    third_.Join();
  }
  ~OrphanTest() override {
    EXPECT_EQ(cache::Inspector(harness_.coordinator()).CheckInvariants(), absl::OkStatus());
  }

  void Kill() {
    doomed_.Signal(SIGKILL);
    EXPECT_EQ(doomed_.Wait(), 128 + SIGKILL);
  }
  bool Orphaned() {
    return Eventually([&] { return harness_.PoolState().orphans() == 1; });
  }
  // Once the process is known to have ended.
  absl::StatusOr<v1::ClaimResult> ClaimSoon(TestWorker& worker) {
    absl::StatusOr<v1::ClaimResult> claimed;
    EXPECT_TRUE(Eventually([&] {
      claimed = worker.Claim(1);
      return !absl::IsUnavailable(claimed.status());
    })) << claimed.status();
    return claimed;
  }
  void Close(TestWorker& worker, const v1::ClaimResult& claimed) {
    v1::SessionRequest request;
    request.add_close()->set_sequence_id(claimed.sequence_id());
    request.mutable_close(0)->set_lease_epoch(claimed.lease_epoch());
    const auto reply = worker.Call(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->failed_size(), 0);
  }
  bool AllFree() {
    return Eventually([&] {
      const v1::Pool pool = harness_.PoolState();
      return pool.free_pages() == pool.total_pages() && pool.reserved_pages() == 0;
    });
  }

  ManagerHarness harness_;
  ChildProcess doomed_{{FOLIO_TEST_WORKER_BINARY, harness_.address(), "64"}};
  TestWorker other_{harness_.address()};
  TestWorker third_{harness_.address()};
};

TEST_F(OrphanTest, AKilledWorkersSequenceIsClaimed) {
  EXPECT_TRUE(absl::IsUnavailable(other_.Claim(1).status()));
  Kill();
  ASSERT_TRUE(Orphaned());
  const v1::Sequence shown = harness_.SequenceState(1).sequence();
  EXPECT_EQ(shown.state(), v1::SEQUENCE_STATE_ORPHANED);
  EXPECT_GT(shown.orphan_ms(), 30'000U);
  EXPECT_EQ(shown.held_pages(), kHeld);
  const auto claimed = ClaimSoon(other_);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->lease_epoch(), 2U);
  EXPECT_EQ(claimed->prompt_tokens(), 64U);
  EXPECT_EQ(claimed->tokens_size(), 64);
  EXPECT_EQ(claimed->max_new_tokens(), 16U);
  EXPECT_EQ(claimed->logical_length(), 0U);
  ASSERT_EQ(claimed->layers_size(), 2);
  EXPECT_EQ(claimed->layers(0).pages().pages_size(), 5);
  EXPECT_EQ(claimed->output().stop(0), "the end");
  EXPECT_FALSE(claimed->has_plan());

  v1::SessionRequest commit;
  commit.add_commit()->set_sequence_id(1);
  commit.mutable_commit(0)->set_lease_epoch(2);
  commit.mutable_commit(0)->set_logical_length(64);
  commit.mutable_commit(0)->add_sampled_tokens(9);
  const auto reply = other_.Call(commit);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->failed_size(), 0) << reply->ShortDebugString();
  Close(other_, *claimed);
  EXPECT_TRUE(AllFree()) << Show(harness_.PoolState());
}

TEST_F(OrphanTest, OneOfTwoGetsIt) {
  Kill();
  ASSERT_TRUE(Orphaned());
  EXPECT_TRUE(absl::IsPermissionDenied(other_.Claim(1, "fedcba9876543210").status()));
  const auto claimed = ClaimSoon(other_);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  const absl::Status late = third_.Claim(1).status();
  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("lease is live"));
  Close(other_, *claimed);
  EXPECT_TRUE(absl::IsNotFound(third_.Claim(1).status()));
}

TEST_F(OrphanTest, ADrainingManagerDoesNotWaitForOrphans) {
  Kill();
  ASSERT_TRUE(Orphaned());
  EXPECT_TRUE(harness_.server().Drain(absl::Seconds(20), [](absl::Duration) { return false; }));
  const absl::Status refused = other_.Claim(1).status();
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("draining"));
}

class HungTest : public OrphanTest {
 protected:
  HungTest() : OrphanTest({.lease_ttl = absl::Seconds(1), .orphan_ttl = absl::Seconds(60)}) {}
  // The others live while they are heard of.
  bool OrphanedMeanwhile() {
    return Eventually([&] {
      EXPECT_TRUE(other_.Call().ok() && third_.Call().ok());
      return harness_.PoolState().orphans() == 1;
    });
  }
};

TEST_F(HungTest, NobodyGoesOnWhileTheProcessLives) {
  doomed_.Signal(SIGSTOP);
  ASSERT_TRUE(OrphanedMeanwhile());
  EXPECT_EQ(harness_.PoolState().held_pages(), kHeld);
  const absl::Status early = other_.Claim(1).status();
  EXPECT_TRUE(absl::IsUnavailable(early)) << early;
  EXPECT_THAT(std::string(early.message()), HasSubstr("could still write its pages"));
  // Another one's orderly end does not make it claimable.
  EXPECT_TRUE(third_.End().ok());
  EXPECT_TRUE(Eventually([&] { return harness_.PoolState().workers_size() == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(other_.Claim(1).status()));
  Kill();
  const auto claimed = ClaimSoon(other_);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  Close(other_, *claimed);
  EXPECT_TRUE(AllFree()) << Show(harness_.PoolState());
}

class ShortTest : public OrphanTest {
 protected:
  ShortTest() : OrphanTest({.orphan_ttl = absl::Milliseconds(300)}) {}
};

TEST_F(ShortTest, WhatNobodyClaimsEnds) {
  Kill();
  ASSERT_TRUE(AllFree()) << Show(harness_.PoolState());
  EXPECT_EQ(harness_.PoolState().sequences(), 0U);
  EXPECT_TRUE(absl::IsNotFound(other_.Claim(1).status()));
}

}  // namespace
}  // namespace folio::testing
