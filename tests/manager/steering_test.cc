// The calls of the Admin service that change something, against a manager in this process.
#include "services/client/steering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "services/cache/inspector.h"
#include "services/client/admin_client.h"
#include "services/manager/drains.h"
#include "services/manager/process_watch.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class SteeringCalls : public ::testing::Test {
 protected:
  SteeringCalls() {
    worker_.Join();
    v1::OpenSequence open = SmallOpen(32, 32);
    open.set_may_be_parked(true);
    const auto opened = worker_.Open(open);
    EXPECT_TRUE(opened.ok()) << opened.status();
    opened_ = *opened;
  }
  ~SteeringCalls() override {
    EXPECT_EQ(cache::Inspector(harness_.coordinator()).CheckInvariants(), absl::OkStatus());
  }

  std::vector<v1::EventKind> Kinds() {
    std::vector<v1::EventKind> kinds;
    client::EventStream events = client_->WatchEvents({});
    while (const auto event = events.Next()) kinds.push_back(event->event().kind());
    return kinds;
  }

  ManagerHarness harness_;
  TestWorker worker_{harness_.address()};
  std::unique_ptr<client::AdminClient> client_ = *client::AdminClient::Connect(harness_.address());
  client::Steering steering_{*client_};
  v1::OpenResult opened_;
};

TEST_F(SteeringCalls, AClosedSequenceFailsAtItsWorker) {
  ASSERT_TRUE(steering_.Close(opened_.sequence_id(), "too long").ok());
  EXPECT_TRUE(client_->GetSequence(opened_.sequence_id())->sequence().closing());
  const auto reply = worker_.Call();
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->failed_size(), 1);
  EXPECT_EQ(reply->failed(0).sequence_id(), opened_.sequence_id());
  EXPECT_EQ(reply->failed(0).code(), static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_EQ(reply->failed(0).message(), "an operator has ended the sequence: too long");
  EXPECT_EQ(worker_.Call()->failed_size(), 0);
  EXPECT_THAT(Kinds(), Contains(v1::EVENT_KIND_CLOSE_ORDERED));
}

TEST_F(SteeringCalls, AParkedSequenceIsAskedBack) {
  ASSERT_TRUE(steering_.Park(opened_.sequence_id(), "").ok());
  const auto reply = worker_.Call();
  ASSERT_EQ(reply->park_size(), 1);
  EXPECT_EQ(reply->park(0), opened_.sequence_id());
  EXPECT_THAT(Kinds(), Contains(v1::EVENT_KIND_PARK_ORDERED));
}

TEST_F(SteeringCalls, APinIsShownAndEnds) {
  ASSERT_TRUE(steering_.Pin(opened_.sequence_id(), /*undo=*/false, "").ok());
  EXPECT_TRUE(client_->ListSequences()->sequences(0).pinned());
  EXPECT_TRUE(absl::IsFailedPrecondition(steering_.Park(opened_.sequence_id(), "")));
  ASSERT_TRUE(steering_.Pin(opened_.sequence_id(), /*undo=*/true, "").ok());
  EXPECT_FALSE(client_->ListSequences()->sequences(0).pinned());
}

TEST_F(SteeringCalls, ALowerBudgetIsShownAndLeavesAnEvent) {
  const auto opened = worker_.Open(SmallOpen(48, 64, 64));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const uint64_t id = opened->sequence_id();
  const absl::Status prefill = steering_.LowerBudget(id, 32, "").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(prefill));
  EXPECT_THAT(prefill.message(), HasSubstr("its prompt is in prefill"));
  ASSERT_EQ(worker_.Commit(*opened, 48, 1)->failed_size(), 0);
  const auto lowered = steering_.LowerBudget(id, 31, "the pool is needed");
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(lowered->cache().budget_tokens(), 32U);
  EXPECT_TRUE(lowered->cache().policy().has_paged_eviction());
  EXPECT_EQ(lowered->pages_over_budget(), 2U);  // one of each layer
  EXPECT_EQ(client_->GetSequence(id)->sequence().cache().budget_tokens(), 32U);
  client::EventStream events = client_->WatchEvents({});
  v1::Event event;
  while (const auto next = events.Next()) event = next->event();
  EXPECT_EQ(event.kind(), v1::EVENT_KIND_BUDGET_LOWERED);
  EXPECT_EQ(event.sequence_id(), id);
  EXPECT_EQ(event.worker_id(), worker_.attached().worker_id());
  EXPECT_EQ(event.tokens(), 32U);
  EXPECT_EQ(event.pages(), 2U);
  EXPECT_EQ(event.text(), "the pool is needed");
}

TEST_F(SteeringCalls, AQuotaIsShownKeptToAndLeavesAnEvent) {
  v1::Quota quota;
  quota.set_sequences(1);
  ASSERT_TRUE(steering_.SetQuota("team", quota, "days are for chats").ok());
  v1::OpenSequence open = SmallOpen(32, 32);
  open.set_tenant("team");
  ASSERT_TRUE(worker_.Open(open).ok());
  const absl::Status refused = worker_.Open(open).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(refused.message(), HasSubstr("quota of tenant \"team\" (at most 1 sequence)"));
  const auto tenants = client_->ListTenants();
  ASSERT_EQ(tenants->tenants_size(), 2);
  EXPECT_FALSE(tenants->tenants(0).has_quota());
  EXPECT_EQ(tenants->tenants(1).tenant(), "team");
  EXPECT_EQ(tenants->tenants(1).quota().sequences(), 1U);
  EXPECT_FALSE(tenants->tenants(1).quota().has_pages());
  EXPECT_GE(tenants->tenants(1).needed_pages(), tenants->tenants(1).held_pages());
  client::EventStream events = client_->WatchEvents({});
  v1::Event event;
  while (const auto next = events.Next()) {
    if (next->event().kind() == v1::EVENT_KIND_QUOTA_SET) event = next->event();
  }
  EXPECT_EQ(event.label(), "team");
  EXPECT_EQ(event.text(), "at most 1 sequence: days are for chats");
  ASSERT_TRUE(steering_.SetQuota("team", {}, "").ok());
  EXPECT_TRUE(worker_.Open(open).ok());
}

TEST_F(SteeringCalls, QuotasThatAreRefused) {
  v1::Quota quota;
  quota.set_pages(5);
  EXPECT_THAT(steering_.SetQuota(std::string(65, 'x'), quota, "").message(),
              HasSubstr("tenant: has 65 bytes; at most 64"));
  EXPECT_TRUE(absl::IsInvalidArgument(steering_.SetQuota("a", quota, std::string(257, 'x'))));
  EXPECT_THAT(Kinds(), ::testing::Not(Contains(v1::EVENT_KIND_QUOTA_SET)));
}

TEST_F(SteeringCalls, WhatABudgetCannotBeLoweredTo) {
  const auto refusal = [&](uint64_t id, uint32_t budget, const std::string& reason = "") {
    return steering_.LowerBudget(id, budget, reason).status();
  };
  EXPECT_TRUE(absl::IsNotFound(refusal(99, 32)));
  EXPECT_TRUE(absl::IsInvalidArgument(refusal(opened_.sequence_id(), 32, std::string(257, 'x'))));
  const absl::Status full = refusal(opened_.sequence_id(), 32);
  EXPECT_TRUE(absl::IsFailedPrecondition(full));
  EXPECT_THAT(full.message(), HasSubstr("policy full evicts nothing"));
  EXPECT_THAT(Kinds(), ::testing::Not(Contains(v1::EVENT_KIND_BUDGET_LOWERED)));
}

TEST_F(SteeringCalls, ADrainedWorkerOpensNothing) {
  const std::string id = worker_.attached().worker_id();
  EXPECT_EQ(steering_.Drain(id, /*undo=*/false, "").value(), 1U);
  EXPECT_TRUE(client_->ListWorkers()->workers(0).draining());
  const absl::Status refused = worker_.Open(SmallOpen(32, 32)).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("worker " + id));
  TestWorker other(harness_.address());
  other.Join();
  EXPECT_TRUE(other.Open(SmallOpen(32, 32)).ok());
  EXPECT_EQ(steering_.Drain("", /*undo=*/false, "").value(), 2U);
  EXPECT_TRUE(client_->GetManager()->draining());
  EXPECT_TRUE(absl::IsUnavailable(other.Open(SmallOpen(32, 32)).status()));
  EXPECT_TRUE(steering_.Drain("", /*undo=*/true, "").ok());
  EXPECT_TRUE(steering_.Drain(id, /*undo=*/true, "").ok());
  EXPECT_TRUE(worker_.Open(SmallOpen(32, 32)).ok());
}

TEST_F(SteeringCalls, ErrorsNameTheField) {
  EXPECT_TRUE(absl::IsNotFound(steering_.Close(99, "")));
  EXPECT_TRUE(absl::IsNotFound(steering_.Park(99, "")));
  EXPECT_TRUE(absl::IsNotFound(steering_.Pin(99, true, "")));
  for (const std::string id : {"w99", "x", "w"}) {
    const absl::Status unknown = steering_.Drain(id, false, "").status();
    EXPECT_TRUE(absl::IsNotFound(unknown));
    EXPECT_THAT(unknown.message(), HasSubstr("worker_id: "));
  }
  const absl::Status reason = steering_.Close(opened_.sequence_id(), std::string(257, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(reason));
  EXPECT_THAT(reason.message(), HasSubstr("reason: has 257 bytes"));
}

TEST_F(SteeringCalls, TheQuarantineOfAProcessThatRunsStays) {
  const std::string id = worker_.attached().worker_id();
  EXPECT_THAT(steering_.ReleaseQuarantine(id, "").status().message(), HasSubstr("is not fenced"));
  EXPECT_TRUE(worker_.End().ok());
  ASSERT_TRUE(Eventually([&] { return harness_.PoolState().quarantined_pages() > 0; }));
  const absl::Status runs = steering_.ReleaseQuarantine(id, "").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(runs));
  EXPECT_THAT(runs.message(), HasSubstr("still runs"));
}

TEST_F(SteeringCalls, TenantsAndPagesAreListed) {
  v1::OpenSequence open = SmallOpen(16, 16, 32);
  open.set_tenant("team");
  const auto opened = worker_.Open(open);
  ASSERT_TRUE(opened.ok());
  ASSERT_EQ(worker_.Commit(*opened, 16, 1)->failed_size(), 0);
  const auto tenants = client_->ListTenants();
  ASSERT_EQ(tenants->tenants_size(), 2);
  EXPECT_EQ(tenants->tenants(0).tenant(), "");
  EXPECT_EQ(tenants->tenants(0).held_pages(), 6U);
  EXPECT_EQ(tenants->tenants(1).tenant(), "team");
  v1::ListPagesRequest request;
  request.set_layers(true);
  request.set_scores(true);
  const auto runs = client_->ListPages(request);
  ASSERT_TRUE(runs.ok()) << runs.status();
  uint32_t pages = 0;
  uint32_t held = 0;
  uint32_t scored = 0;
  for (const v1::PageRun& run : *runs) {
    pages += run.pages();
    if (run.state() == v1::PAGE_STATE_HELD) held += run.pages();
    if (run.has_score()) ++scored;
    EXPECT_EQ(run.has_layer(), run.state() == v1::PAGE_STATE_HELD);
  }
  const v1::Pool pool = harness_.PoolState();
  EXPECT_EQ(pages, pool.total_pages());
  EXPECT_EQ(held, pool.held_pages());
  EXPECT_EQ(scored, 2U) << "the full page of each layer; the full policy reads none";
}

TEST(Drains, SaysWhyNothingIsOpened) {
  manager::Drains drains;
  EXPECT_TRUE(drains.MayOpen(WorkerId(1)).ok());
  drains.Order(WorkerId(1), true);
  EXPECT_FALSE(drains.MayOpen(WorkerId(1)).ok());
  EXPECT_TRUE(drains.MayOpen(WorkerId(2)).ok());
  EXPECT_TRUE(drains.MayOpen().ok());
  drains.Forget(WorkerId(1));
  EXPECT_TRUE(drains.MayOpen(WorkerId(1)).ok());
  drains.Order(true);
  EXPECT_THAT(drains.MayOpen(WorkerId(2)).message(), HasSubstr("operator"));
  drains.End();
  EXPECT_TRUE(drains.ending());
  EXPECT_THAT(drains.MayOpen().message(), HasSubstr("draining"));
}

}  // namespace
}  // namespace folio::testing
