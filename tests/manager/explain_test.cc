// Explanations of evictions over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "services/grpc/grpc_status.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

using ::testing::HasSubstr;

TEST(Explain, OneCallAtATime) {
  constexpr uint32_t kPrompt = 64'000;
  ManagerHarness harness({.pool_bytes = 10'000 * kSmallPageBytes});
  TestWorker worker(harness.address());
  worker.Join();
  const auto opened = worker.Open(SmallOpen(kPrompt, 16, kPrompt));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto reply = worker.Commit(*opened, kPrompt, 1);
  ASSERT_TRUE(reply.ok() && reply->failed_size() == 0) << reply.status();

  v1::ExplainEvictionRequest request;
  request.set_sequence_id(opened->sequence_id());
  request.mutable_cache()->mutable_policy()->mutable_paged_eviction();
  request.mutable_cache()->set_budget_tokens(kPrompt / 2);
  const auto explain = [&] {
    grpc::ClientContext context;
    v1::ExplainEvictionResponse response;
    const absl::Status status =
        FromGrpcStatus(harness.admin().ExplainEviction(&context, request, &response));
    EXPECT_TRUE(!status.ok() || response.layers_size() == 2);
    return status;
  };
  std::atomic<int> answered = 0, refused = 0;
  std::vector<std::thread> callers;
  callers.reserve(8);
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&] {
      for (int call = 0; call < 20; ++call) {
        const absl::Status status = explain();
        ++(status.ok() ? answered : refused);
        if (status.ok()) continue;
        EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
        EXPECT_THAT(std::string(status.message()), HasSubstr("one at a time; ask again"));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_GT(answered, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(explain(), absl::OkStatus());
}

}  // namespace
}  // namespace folio::testing
