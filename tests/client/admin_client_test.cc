// The client of a manager: streams of events and how they end, and the list of workers.
#include "services/client/admin_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/client/scripted_server.h"

namespace folio::client {
namespace {

using ::folio::testing::ScriptedServer;
using ::testing::HasSubstr;

std::unique_ptr<AdminClient> MustConnect(const ScriptedServer& server) {
  auto client = AdminClient::Connect(server.address());
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

void AddEvent(ScriptedServer& server, uint64_t number) {
  server.script.watched.emplace_back().mutable_event()->set_number(number);
}

bool SoonIs(const std::atomic<int>& count, int wanted) {
  for (int i = 0; i < 2000 && count != wanted; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return count == wanted;
}

TEST(WatchEvents, PullsEventsInOrder) {
  ScriptedServer server;
  server.script.watched.emplace_back().mutable_lost()->set_events(3);
  AddEvent(server, 4);
  AddEvent(server, 5);
  const auto client = MustConnect(server);
  folio::v1::WatchEventsRequest request;
  request.set_after(1);
  EventStream events = client->WatchEvents(request);
  EXPECT_EQ(events.Next()->lost().events(), 3);
  EXPECT_EQ(events.Next()->event().number(), 4);
  EXPECT_EQ(events.Next()->event().number(), 5);
  EXPECT_EQ(events.Next(), std::nullopt);
  EXPECT_EQ(events.status(), absl::OkStatus());
  EXPECT_EQ(events.Next(), std::nullopt) << "and remains so";
  EXPECT_EQ(server.watch_request().after(), 1);
}

TEST(WatchEvents, GivesTheServersCodeAndWords) {
  ScriptedServer server;
  server.script.status = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "16 streams");
  EventStream events = MustConnect(server)->WatchEvents({});
  EXPECT_EQ(events.Next(), std::nullopt);
  EXPECT_EQ(events.status(), absl::ResourceExhaustedError("16 streams"));
}

TEST(WatchEvents, CancelsFromAnotherThread) {
  ScriptedServer server;
  AddEvent(server, 1);
  server.script.hang = true;
  const auto client = MustConnect(server);
  EventStream events = client->WatchEvents({});
  ASSERT_TRUE(events.Next().has_value());
  std::thread other([&] { events.Cancel(); });
  EXPECT_EQ(events.Next(), std::nullopt);
  other.join();
  EXPECT_TRUE(absl::IsCancelled(events.status())) << events.status();
  EXPECT_TRUE(SoonIs(server.script.cancelled, 1));
}

TEST(WatchEvents, ACancellationAndADeadlineEndIt) {
  ScriptedServer server;
  server.script.hang = true;
  const auto client = MustConnect(server);
  CallOptions options;
  EventStream events = client->WatchEvents({}, options);
  std::thread other([&] { options.cancellation.Cancel(); });
  EXPECT_EQ(events.Next(), std::nullopt);
  other.join();
  EXPECT_TRUE(absl::IsCancelled(events.status())) << events.status();
  CallOptions soon;
  soon.deadline = SteadyNow() + absl::Milliseconds(50);
  EventStream late = client->WatchEvents({}, soon);
  EXPECT_EQ(late.Next(), std::nullopt);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
}

TEST(WatchEvents, DroppingItCancelsAndItOutlivesItsClient) {
  ScriptedServer server;
  AddEvent(server, 1);
  server.script.hang = true;
  auto client = MustConnect(server);
  {
    EventStream events = client->WatchEvents({});
    client.reset();
    EventStream moved = std::move(events);
    EXPECT_TRUE(moved.Next().has_value());
  }
  EXPECT_TRUE(SoonIs(server.script.cancelled, 1));
}

TEST(WatchEvents, EndsWhenTheServerGoes) {
  ScriptedServer server;
  AddEvent(server, 1);
  server.script.hang = true;
  const auto client = MustConnect(server);
  EventStream events = client->WatchEvents({});
  ASSERT_TRUE(events.Next().has_value());
  std::thread other([&] { server.Stop(); });
  EXPECT_EQ(events.Next(), std::nullopt);
  other.join();
  EXPECT_FALSE(events.status().ok());
}

TEST(ListWorkers, TheAnswerArrives) {
  ScriptedServer server;
  server.script.workers.add_workers()->set_worker_id("w1");
  const auto client = MustConnect(server);
  const auto workers = client->ListWorkers();
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_EQ(workers->workers(0).worker_id(), "w1");
  server.script.status = grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "an older manager");
  EXPECT_THAT(std::string(client->ListWorkers().status().message()), HasSubstr("manager at"));
}

}  // namespace
}  // namespace folio::client
