// folioctl events: what it asks for, how events look, and how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/run_cli.h"
#include "tests/client/scripted_server.h"

namespace folio::cli {
namespace {

using ::folio::testing::Cli;
using ::folio::testing::CliResult;
using ::folio::testing::Folioctl;
using ::folio::testing::ScriptedServer;
using ::testing::HasSubstr;

// 2026-11-24 06:01:26.123456 UTC.
constexpr uint64_t kTime = 1795500086123456;

folio::v1::Event* AddEvent(ScriptedServer& server, folio::v1::EventKind kind) {
  folio::v1::Event* event = server.script.watched.emplace_back().mutable_event();
  event->set_number(40 + server.script.watched.size());
  event->set_time_us(kTime);
  event->set_kind(kind);
  return event;
}

// One of each shape.
void FillScript(ScriptedServer& server) {
  server.script.watched.emplace_back().mutable_lost()->set_events(1234);
  auto* fenced = AddEvent(server, folio::v1::EVENT_KIND_WORKER_FENCED);
  fenced->set_worker_id("w1");
  fenced->set_worker_name("node \"a\"\n");
  fenced->set_pid(4711);
  fenced->set_pages(1200);
  fenced->set_text("lease ran out");
  auto* orphaned = AddEvent(server, folio::v1::EVENT_KIND_SEQUENCES_ORPHANED);
  orphaned->set_worker_id("w1");
  orphaned->set_sequences(3);
  auto* gone = AddEvent(server, folio::v1::EVENT_KIND_WORKER_GONE);
  gone->set_worker_id("w1");
  gone->set_worker_name("a");
  gone->set_pages(1200);
  gone->set_freed_pages(0);
  auto* claimed = AddEvent(server, folio::v1::EVENT_KIND_SEQUENCE_CLAIMED);
  claimed->set_worker_id("w2");
  claimed->set_sequence_id(7);
  claimed->set_label("chat");
  claimed->set_tokens(1445);
  claimed->set_lease_epoch(2);
  auto* refused = AddEvent(server, folio::v1::EVENT_KIND_SEQUENCE_REFUSED);
  refused->set_worker_id("w2");
  refused->set_label("");
  refused->set_code("RESOURCE_EXHAUSTED");
  refused->set_text("never fits\nat all");
  auto* evicted = AddEvent(server, folio::v1::EVENT_KIND_PAGES_EVICTED);
  evicted->set_worker_id("w2");
  evicted->set_sequence_id(7);
  evicted->set_policy("key_diff");
  evicted->set_pages(30);
  AddEvent(server, static_cast<folio::v1::EventKind>(250))->set_text("of a later version");
}

TEST(Events, ALineForEachEvent) {
  ScriptedServer server;
  FillScript(server);
  const CliResult result = Folioctl({"events", "--address", server.address()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out,
            R"(1,234 events are lost: the manager has dropped them before they were read.
      42  2026-11-24 06:01:26.123  worker_fenced       w1, name "node \"a\"\n", pid 4711, blocks 1,200 pages, lease ran out
      43  2026-11-24 06:01:26.123  sequences_orphaned  w1, 3 sequences
      44  2026-11-24 06:01:26.123  worker_gone         w1, name "a", blocked 1,200 pages, 0 of them are free now
      45  2026-11-24 06:01:26.123  sequence_claimed    w2, sequence 7, label "chat", 1,445 tokens, lease 2
      46  2026-11-24 06:01:26.123  sequence_refused    w2, label "", RESOURCE_EXHAUSTED: "never fits\nat all"
      47  2026-11-24 06:01:26.123  pages_evicted       w2, sequence 7, key_diff, freed 30 pages
      48  2026-11-24 06:01:26.123  250                 of a later version
)");
}

TEST(Events, JsonIsAnObjectPerLine) {
  ScriptedServer server;
  FillScript(server);
  const CliResult result = Folioctl({"events", "--address", server.address(), "--output", "json"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::istringstream lines(result.out);
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(all.size(), server.script.watched.size());
  EXPECT_EQ(all[0]["lost"]["events"], "1234");
  EXPECT_EQ(all[1]["event"]["kind"], "EVENT_KIND_WORKER_FENCED");
  EXPECT_EQ(all[1]["event"]["pid"], 4711);
  EXPECT_FALSE(all[1]["event"].contains("sequence_id")) << "it does not belong to the kind";
  EXPECT_EQ(all[3]["event"]["freed_pages"], 0) << "this one does";
}

TEST(Events, FlagsBecomeTheRequest) {
  ScriptedServer server;
  ASSERT_EQ(Folioctl({"events", "--address", server.address()}).code, 0);
  EXPECT_EQ(server.watch_request().SerializeAsString(), "");
  ASSERT_EQ(Folioctl({"events", "--address", server.address(), "--follow", "--after", "17",
                      "--kind", "worker_gone", "--kind", "pages_evicted"})
                .code,
            0);
  const auto request = server.watch_request();
  EXPECT_TRUE(request.follow());
  EXPECT_EQ(request.after(), 17);
  ASSERT_EQ(request.kinds_size(), 2);
  EXPECT_EQ(request.kinds(0), folio::v1::EVENT_KIND_WORKER_GONE);
  EXPECT_EQ(request.kinds(1), folio::v1::EVENT_KIND_PAGES_EVICTED);
  ASSERT_EQ(Folioctl({"events", "--address", server.address(), "--kind", "all"}).code, 0);
  EXPECT_EQ(server.watch_request().kinds_size(), folio::v1::EventKind_MAX);
}

TEST(Events, AManagerThatEndsInOrderIsASuccess) {
  ScriptedServer server;
  const CliResult result = Folioctl({"events", "--follow", "--address", server.address()});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "The manager has ended.\n");
}

TEST(Events, InterruptEndsItWith130) {
  ScriptedServer server;
  FillScript(server);
  server.script.hang = true;
  const CliResult result = Cli().RunInterrupted(
      {"events", "--follow", "--address", server.address()}, server.script.started);
  EXPECT_EQ(result.code, 130);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("worker_fenced")) << "each line is written at once";
}

TEST(Events, FailuresHaveExitCodes) {
  ScriptedServer server;
  for (const auto& [code, exit_code] :
       std::vector<std::pair<grpc::StatusCode, int>>{{grpc::StatusCode::UNAVAILABLE, 3},
                                                     {grpc::StatusCode::INVALID_ARGUMENT, 5},
                                                     {grpc::StatusCode::RESOURCE_EXHAUSTED, 6},
                                                     {grpc::StatusCode::UNIMPLEMENTED, 1}}) {
    server.script.status = grpc::Status(code, "the server's words");
    for (const char* command : {"events", "workers", "leases", "quarantine"}) {
      const CliResult result = Folioctl({command, "--address", server.address()});
      EXPECT_EQ(result.code, exit_code) << command;
      EXPECT_THAT(result.err, HasSubstr("the server's words")) << command;
      EXPECT_EQ(result.out, "") << command;
    }
  }
}

TEST(Events, MistakesExitWithTwo) {
  for (const auto& [arguments, words] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"events", "--kind", "lost"}, "--kind lost: no such kind of event; use all, pool_cre"},
           {{"events", "--after", "yesterday"}, "yesterday"},
           {{"events", "--after", "-1"}, "\"-1\" is not the number of an event"},
           {{"events", "now"}, "now"},
           {{"quarantine", "w1"}, "w1"}}) {
    const CliResult result = Folioctl(arguments);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_THAT(result.err, HasSubstr(words));
  }
}

TEST(Events, CommandsHaveHelpWithExamples) {
  const CliResult all = Folioctl({"--help"});
  for (const char* command : {"events", "workers", "leases", "quarantine"}) {
    EXPECT_THAT(all.out, HasSubstr(command));
    const CliResult help = Folioctl({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("Examples:\n  folioctl"));
  }
  EXPECT_THAT(Folioctl({"events", "--help"}).out, HasSubstr("journal_resumed\n\nExamples:"));
}

TEST(Events, ATerminalIsSafeFromNames) {
  ScriptedServer server;
  AddEvent(server, folio::v1::EVENT_KIND_POOL_CREATED)
      ->set_text(
          "a\x07"
          "b");
  Cli cli;
  cli.terminal = true;
  EXPECT_THAT(cli.Run({"events", "--address", server.address()}).out, HasSubstr("a^Gb"));
}

}  // namespace
}  // namespace folio::cli
