// folioctl workers, leases and quarantine: the same workers, seen in three ways.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/run_cli.h"
#include "tests/client/scripted_server.h"

namespace folio::cli {
namespace {

using ::folio::testing::CliResult;
using ::folio::testing::Folioctl;
using ::folio::testing::ScriptedServer;
using ::testing::HasSubstr;

folio::v1::Worker* AddWorker(ScriptedServer& server, const std::string& id, int pid) {
  folio::v1::Worker* worker = server.script.workers.add_workers();
  worker->set_worker_id(id);
  worker->set_name("name-" + id);
  auto* process = worker->add_processes();
  process->set_pid(pid);
  process->set_has_pages(true);
  return worker;
}

// Two live workers, the second one of two ranks, and three that were lost.
void FillScript(ScriptedServer& server) {
  server.script.workers.set_lease_ttl_ms(10000);
  server.script.workers.set_kill_fenced_after_ms(30000);
  auto* live = AddWorker(server, "w1", 100);
  live->set_sequences(12);
  live->set_held_pages(3456);
  live->set_claimed_sequences(2);
  live->set_highest_lease_epoch(3);
  live->set_lease_remaining_ms(7500);
  live->set_steps_done(1234);
  live->set_step_in_flight_ms(45);
  auto* ranks = AddWorker(server, "w2", 200);
  ranks->add_processes()->set_pid(201);
  ranks->set_lease_remaining_ms(10000);
  auto* hung = AddWorker(server, "w3", 300);
  hung->mutable_fence()->set_reason("lease ran out");
  hung->mutable_fence()->set_fenced_ms(18000);
  hung->mutable_fence()->set_silent_ms(28000);
  hung->mutable_fence()->set_blocked_pages(5000);
  hung->mutable_fence()->set_orphans(4);
  hung->mutable_fence()->set_kill_in_ms(12000);
  auto* foreign = AddWorker(server, "w4", 0);
  foreign->mutable_fence()->set_reason("session ended");
  foreign->mutable_fence()->set_fenced_ms(95000);
  foreign->mutable_fence()->set_silent_ms(95000);
  foreign->mutable_fence()->set_blocked_pages(7);
  foreign->mutable_fence()->set_kill_error("it is in another PID namespace");
  auto* over = AddWorker(server, "w5", 500);
  over->mutable_fence()->set_reason("process ended");
}

TEST(Workers, ShowsLiveAndFencedOnes) {
  ScriptedServer server;
  FillScript(server);
  const CliResult result = Folioctl({"workers", "--address", server.address()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      result.out,
      R"(worker  name           pid  state                  sequences  pages  lease left  steps  in step for
w1      "name-w1"      100  live                          12  3,456      7.50 s  1,234      45.0 ms
w2      "name-w2"  200,201  live                           0      0     10.00 s      -            -
w3      "name-w3"      300  fenced: lease ran out          0      0           -      -            -
w4      "name-w4"        -  fenced: session ended          0      0           -      -            -
w5      "name-w5"      500  fenced: process ended          0      0           -      -            -
)");
}

TEST(Workers, LeasesAreThoseOfLiveOnes) {
  ScriptedServer server;
  FillScript(server);
  const CliResult result = Folioctl({"leases", "--address", server.address()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            R"(worker  name       ends in     renewed  sequences  claimed  highest epoch
w1      "name-w1"   7.50 s  2.50 s ago         12        2              3
w2      "name-w2"  10.00 s     0 s ago          0        0              -

A lease ends 10.00 s after the worker's last message.
)");
}

TEST(Workers, QuarantineIsOfThoseThatBlockPages) {
  ScriptedServer server;
  FillScript(server);
  server.script.workers.mutable_workers(0)->set_name("other");
  const CliResult result = Folioctl({"quarantine", "--address", server.address()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            R"(worker  name       pid  pages  orphans        fenced  silent for  why            kill
w3      "name-w3"  300  5,000        4   18.00 s ago     28.00 s  lease ran out  in 12.00 s
w4      "name-w4"    -      7        0  1 m 35 s ago    1 m 35 s  session ended  failed: it is in another PID namespace

These pages come back when the processes have ended.
)");
}

TEST(Workers, TheManagersPlanToKill) {
  ScriptedServer server;
  auto* fence = AddWorker(server, "w1", 1)->mutable_fence();
  fence->set_blocked_pages(1);
  EXPECT_THAT(Folioctl({"quarantine", "--address", server.address()}).out, HasSubstr("never\n"));
  fence->set_killed(true);
  EXPECT_THAT(Folioctl({"quarantine", "--address", server.address()}).out, HasSubstr("sent\n"));
}

TEST(Workers, NoneHasWordsToo) {
  ScriptedServer server;
  server.script.workers.set_lease_ttl_ms(500);
  EXPECT_EQ(Folioctl({"workers", "--address", server.address()}).out, "No worker is attached.\n");
  EXPECT_EQ(Folioctl({"leases", "--address", server.address()}).out,
            "No worker has a lease.\nA lease ends 500.0 ms after the worker's last message.\n");
  EXPECT_EQ(Folioctl({"quarantine", "--address", server.address()}).out,
            "No pages wait for the end of a process.\n");
}

TEST(Workers, JsonShowsTheSameWorkers) {
  ScriptedServer server;
  FillScript(server);
  const auto ids = [&](const char* command) {
    const CliResult result = Folioctl({command, "--address", server.address(), "--output", "json"});
    const auto message = nlohmann::json::parse(result.out);
    std::string all;
    for (const auto& worker : message["workers"]) {
      all += worker["worker_id"].get<std::string>() + " ";
    }
    return all;
  };
  EXPECT_EQ(ids("workers"), "w1 w2 w3 w4 w5 ");
  EXPECT_EQ(ids("leases"), "w1 w2 ");
  EXPECT_EQ(ids("quarantine"), "w3 w4 ");
}

}  // namespace
}  // namespace folio::cli
