// Attach: carving, comparing, refusing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/manager/manager_harness.h"
#include "tests/manager/raw_grpc.h"

namespace folio::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(Attach, TheFirstWorkerCarvesAsManyPagesAsFit) {
  ManagerHarness harness({.pool_bytes = 100 * kSmallPageBytes + kSmallPageBytes - 1});
  v1::ListPoolsResponse none;
  grpc::ClientContext context;
  ASSERT_TRUE(harness.admin().ListPools(&context, {}, &none).ok());
  EXPECT_EQ(none.pools_size(), 0);

  TestWorker worker(harness.address());
  auto attached = worker.Attach();
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_EQ(attached->pool().num_pages(), 100U);
  EXPECT_EQ(attached->pool().page_bytes(), kSmallPageBytes);
  EXPECT_EQ(attached->pool().pool_bytes(), 100 * kSmallPageBytes);
  EXPECT_EQ(attached->pool().score_board_bytes(), 2 * 100 * 16 * sizeof(float));
  EXPECT_EQ(attached->lease_ttl_ms(), 60000U);
  EXPECT_EQ(attached->export_socket(), harness.export_socket());
  EXPECT_NE(attached->export_token(), attached->session_token());

  const v1::Pool pool = harness.PoolState();
  EXPECT_EQ(pool.pool_id(), 1U);
  EXPECT_EQ(pool.total_pages(), 100U);
  EXPECT_EQ(pool.free_pages(), 100U);
  EXPECT_EQ(pool.pool_bytes(), 100 * kSmallPageBytes);
  EXPECT_EQ(pool.layout().SerializeAsString(), SmallLayout().SerializeAsString());
  ASSERT_EQ(pool.workers_size(), 1);
  EXPECT_EQ(pool.workers(0).worker_id(), attached->worker_id());
  EXPECT_EQ(pool.workers(0).name(), "test-worker");
}

TEST(DescribePool, HostMemoryHasNoDevices) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  const auto before = worker.DescribePool();
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->devices_size(), 0);
  EXPECT_EQ(harness.server().registry().pool(), nullptr);  // asking makes no pool
  worker.Join();
  const auto after = worker.DescribePool();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->devices_size(), 0);
}

TEST(Attach, AnEqualWorkerSharesThePool) {
  ManagerHarness harness;
  TestWorker first(harness.address());
  TestWorker second(harness.address());
  auto a = first.Attach();
  auto b = second.Attach();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(a->worker_id(), b->worker_id());
  EXPECT_NE(a->export_token(), b->export_token());
  EXPECT_EQ(a->pool().SerializeAsString(), b->pool().SerializeAsString());
  EXPECT_EQ(harness.PoolState().workers_size(), 2);
}

TEST(Attach, ADifferentWorkerIsToldEachFieldWithBothValues) {
  ManagerHarness harness;
  TestWorker first(harness.address());
  first.Join();
  const struct {
    std::function<void(v1::ModelLayout&)> change;
    const char* words;
  } kCases[] = {
      {[](auto& l) { l.set_model("big"); },
       "layout.model: the pool has \"small\", the worker \"big\""},
      {[](auto& l) { l.set_fingerprint("aa"); },
       "layout.fingerprint: the pool has \"00ff\", the worker \"aa\""},
      {[](auto& l) { l.set_model(std::string(100000, 'm')); },
       "layout.model: the pool has \"small\", the worker one of 100000 bytes"},
      {[](auto& l) { l.set_num_layers(3); }, "layout.num_layers: the pool has 2, the worker 3"},
      {[](auto& l) { l.set_num_kv_heads(4); }, "layout.num_kv_heads: the pool has 1, the worker 4"},
      {[](auto& l) { l.set_head_dim(16); }, "layout.head_dim: the pool has 8, the worker 16"},
      {[](auto& l) { l.set_page_tokens(32); },
       "layout.page_tokens: the pool has 16, the worker 32"},
      {[](auto& l) { l.set_data_type(v1::DATA_TYPE_UNSPECIFIED); },
       "layout.data_type: the pool has 1, the worker 0"},
  };
  for (const auto& c : kCases) {
    v1::ModelLayout layout = SmallLayout();
    c.change(layout);
    TestWorker other(harness.address());
    auto refused = other.Attach(layout);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition) << c.words;
    EXPECT_THAT(Message(refused.status()), StartsWith(absl::StrCat(c.words, "; end the workers")));
  }
  v1::ModelLayout two = SmallLayout();
  two.set_num_layers(5);
  two.set_head_dim(32);
  EXPECT_THAT(Message(TestWorker(harness.address()).Attach(two).status()),
              AllOf(HasSubstr("num_layers"), HasSubstr("; "), HasSubstr("head_dim")));
  EXPECT_EQ(harness.PoolState().workers_size(), 1);
}

TEST(Attach, ALayoutThatNobodyFetchedKeepsNobodyOut) {
  ManagerHarness harness;
  v1::ModelLayout bogus = SmallLayout();
  bogus.set_model("bogus");
  bogus.set_num_layers(1);
  TestWorker stranger(harness.address());
  ASSERT_TRUE(stranger.Attach(bogus).ok());
  EXPECT_EQ(harness.PoolState().layout().model(), "bogus");
  TestWorker worker(harness.address());
  worker.Join();
  EXPECT_TRUE(worker.Open(SmallOpen(16, 16)).ok());
  EXPECT_EQ(harness.PoolState().layout().model(), "small");
  EXPECT_EQ(harness.PoolState().workers_size(), 1);
  EXPECT_EQ(stranger.Fetch().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(stranger.Begin().code(), absl::StatusCode::kNotFound);
}

TEST(Attach, OtherProtocolVersionsAreRefused) {
  ManagerHarness harness;
  for (const uint32_t version : {0U, kOldestProtocolVersion - 1, kProtocolVersion + 1}) {
    auto refused = TestWorker(harness.address()).Attach(SmallLayout(), version);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(refused.status()), HasSubstr("protocol_version: the manager speaks"));
    EXPECT_THAT(Message(refused.status()),
                HasSubstr(absl::StrCat("and the worker version ", version)));
  }
}

TEST(Attach, AWorkerOfSeveralProtocolVersionsGetsTheNewestThatTheManagerSpeaks) {
  ManagerHarness harness;
  TestWorker newer(harness.address());
  const auto attached = newer.Attach(SmallLayout(), kOldestProtocolVersion, kProtocolVersion + 5);
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_EQ(attached->protocol_version(), kProtocolVersion);
  const auto older = TestWorker(harness.address())
                         .Attach(SmallLayout(), kOldestProtocolVersion - 1, kOldestProtocolVersion);
  ASSERT_TRUE(older.ok()) << older.status();
  EXPECT_EQ(older->protocol_version(), kOldestProtocolVersion);
}

TEST(Attach, ALayoutNoPoolCanHaveIsRefusedAndCarvesNothing) {
  ManagerHarness harness;
  const struct {
    std::function<void(v1::ModelLayout&)> change;
    const char* field;
  } kCases[] = {
      {[](auto& l) { l.set_num_layers(0); }, "layout.num_layers: 0"},
      {[](auto& l) { l.set_num_layers(100000); }, "layout.num_layers: 100000"},
      {[](auto& l) { l.set_num_kv_heads(0); }, "layout.num_kv_heads: 0"},
      {[](auto& l) { l.set_head_dim(0); }, "layout.head_dim: 0"},
      {[](auto& l) { l.set_head_dim(4294967295U); }, "layout.head_dim: 4294967295"},
      {[](auto& l) { l.set_page_tokens(0); }, "layout.page_tokens: 0"},
      {[](auto& l) { l.set_page_tokens(1U << 31); }, "layout.page_tokens: 2147483648"},
      {[](auto& l) { l.set_data_type(v1::DATA_TYPE_UNSPECIFIED); }, "layout.data_type: 0"},
      {[](auto& l) { l.set_data_type(static_cast<v1::DataType>(77)); }, "layout.data_type: 77"},
      {[](auto& l) { l.clear_fingerprint(); }, "layout.fingerprint: must be set"},
      {[](auto& l) { l.set_fingerprint(std::string(513, 'f')); },
       "layout.fingerprint: has 513 bytes; at most 512"},
      {[](auto& l) { l.set_model(std::string(1 << 20, 'm')); },
       "layout.model: has 1048576 bytes; at most 512, so give the worker a shorter --model_name"},
  };
  for (const auto& c : kCases) {
    v1::ModelLayout layout = SmallLayout();
    c.change(layout);
    auto refused = TestWorker(harness.address()).Attach(layout);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << c.field;
    EXPECT_THAT(Message(refused.status()), HasSubstr(c.field));
  }
  EXPECT_EQ(harness.server().registry().pool(), nullptr);
  EXPECT_TRUE(TestWorker(harness.address()).Attach().ok());
}

TEST(Attach, APoolTooSmallForTheModelSaysWhatItNeeds) {
  ManagerHarness harness({.pool_bytes = 3 * kSmallPageBytes});
  auto refused = TestWorker(harness.address()).Attach();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(refused.status()),
              AllOf(HasSubstr("--pool_bytes=1536B holds 3 pages"), HasSubstr("give it 2KiB")));
}

TEST(Attach, MissingLayoutAndLongNamesAreNamed) {
  ManagerHarness harness;
  auto stub = v1::KvManager::NewStub(
      grpc::CreateChannel(harness.address(), grpc::InsecureChannelCredentials()));
  v1::AttachRequest request;
  request.set_protocol_version(kProtocolVersion);
  v1::AttachResponse response;
  grpc::ClientContext first;
  const grpc::Status no_layout = stub->Attach(&first, request, &response);
  EXPECT_EQ(no_layout.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(no_layout.error_message(), HasSubstr("layout: must be set"));
  *request.mutable_layout() = SmallLayout();
  request.set_worker_name(std::string(1000, 'n'));
  grpc::ClientContext second;
  const grpc::Status long_name = stub->Attach(&second, request, &response);
  EXPECT_EQ(long_name.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(long_name.error_message(), HasSubstr("worker_name: has 1000 bytes"));
}

TEST(StandardServices, HealthAndReflectionAnswer) {
  ManagerHarness harness;
  for (const char* service : {"", "folio.v1.KvManager", "folio.v1.Admin"}) {
    auto health = Health(harness.address(), service);
    ASSERT_TRUE(health.ok()) << service << ": " << health.status();
    EXPECT_EQ(*health, "SERVING") << service;
  }
  EXPECT_EQ(Health(harness.address(), "no.such.Service").status().code(),
            absl::StatusCode::kNotFound);
  auto services = ReflectedServices(harness.address());
  ASSERT_TRUE(services.ok()) << services.status();
  EXPECT_THAT(*services, AllOf(HasSubstr("folio.v1.KvManager"), HasSubstr("folio.v1.Admin"),
                               HasSubstr("grpc.health.v1.Health")));
}

TEST(Drain, RefusesNewcomersAndTurnsHealthOff) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  worker.Join();
  auto opened = worker.Open(SmallOpen(16, 16));
  ASSERT_TRUE(opened.ok()) << opened.status();

  // Not in vain: the sequence still runs when the time is over.
  EXPECT_FALSE(harness.server().Drain(absl::Milliseconds(50), [](absl::Duration wait) {
    absl::SleepFor(wait);
    return false;
  }));
  EXPECT_EQ(*Health(harness.address()), "NOT_SERVING");
  EXPECT_EQ(*Health(harness.address(), "folio.v1.KvManager"), "NOT_SERVING");
  auto attach = TestWorker(harness.address()).Attach();
  EXPECT_EQ(attach.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(attach.status()), HasSubstr("draining"));
  auto open = worker.Open(SmallOpen(16, 16));
  EXPECT_EQ(open.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(open.status()), HasSubstr("draining"));

  // The one that runs is carried on to its end.
  v1::SessionRequest request;
  v1::CommitTokens* commit = request.add_commit();
  commit->set_sequence_id(opened->sequence_id());
  commit->set_lease_epoch(opened->lease_epoch());
  commit->set_logical_length(16);
  v1::CloseSequence* close = request.add_close();
  close->set_sequence_id(opened->sequence_id());
  close->set_lease_epoch(opened->lease_epoch());
  auto reply = worker.Call(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->failed_size(), 0) << reply->ShortDebugString();
  EXPECT_TRUE(harness.server().Drain(absl::Seconds(20), [](absl::Duration) { return false; }));
}

}  // namespace
}  // namespace folio::testing
