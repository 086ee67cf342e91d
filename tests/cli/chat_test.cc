#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/cli/run_cli.h"
#include "tests/client/scripted_server.h"

namespace folio::cli {
namespace {

using ::folio::testing::AnswerEvents;
using ::folio::testing::Cli;
using ::folio::testing::CliResult;
using ::folio::testing::ScriptedServer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Chat, KeepsTheConversation) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"So", "."});
  Cli cli;
  cli.input = "One?\n\nTwo?\n/stats\n/reset\nThree?\n/what\n/quit\nnever\n";
  const CliResult result = cli.Run({"chat", "--address", server.address(), "--system", "Be brief.",
                                    "--policy", "streaming_llm", "--budget", "128"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto requests = server.generate_requests();
  ASSERT_EQ(requests.size(), 3);
  EXPECT_EQ(requests[0].input().chat().messages_size(), 2);
  ASSERT_EQ(requests[1].input().chat().messages_size(), 4);
  EXPECT_EQ(requests[1].input().chat().messages(2).role(), "assistant");
  EXPECT_EQ(requests[1].input().chat().messages(2).content(), "So.");
  EXPECT_EQ(requests[1].input().chat().messages(3).content(), "Two?");
  ASSERT_EQ(requests[2].input().chat().messages_size(), 2);
  EXPECT_EQ(requests[2].input().chat().messages(0).content(), "Be brief.");
  EXPECT_EQ(requests[2].input().chat().messages(1).content(), "Three?");
  EXPECT_EQ(requests[2].cache().budget_tokens(), 128);
  EXPECT_THAT(result.out, AllOf(HasSubstr("So.\n"), HasSubstr("generated tokens     2\n"),
                                HasSubstr("No command /what.")));
}

TEST(Chat, AnErrorEndsAScriptButNotAPerson) {
  ScriptedServer server;
  server.script.status = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "pool full");
  Cli script;
  script.input = "One?\nTwo?\n";
  EXPECT_EQ(script.Run({"chat", "--address", server.address()}).code, 6);
  EXPECT_EQ(server.generate_requests().size(), 1);
  Cli person;
  person.input = "One?\nTwo?\n";
  person.terminal = true;
  const CliResult result = person.Run({"chat", "--address", server.address()});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("RESOURCE_EXHAUSTED: pool full"));
  const auto requests = server.generate_requests();
  ASSERT_EQ(requests.size(), 3);
  // The question that failed is not part of the conversation.
  EXPECT_EQ(requests[2].input().chat().messages_size(), 1);
}

TEST(Chat, InterruptStopsTheAnswerAndKeepsWhatCame) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"par", "tial"});
  server.script.events.pop_back();
  server.script.hang = true;
  Cli cli;
  cli.input = "One?\nTwo?\n";
  const CliResult result =
      cli.RunInterrupted({"chat", "--address", server.address()}, server.script.started, 2);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("partial\n(stopped)\n"));
  const auto requests = server.generate_requests();
  ASSERT_EQ(requests.size(), 2);
  ASSERT_EQ(requests[1].input().chat().messages_size(), 3);
  EXPECT_EQ(requests[1].input().chat().messages(1).content(), "partial");
}

TEST(Chat, JsonIsEventsAndNothingElse) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"So."});
  Cli cli;
  cli.terminal = true;
  cli.input = "One?\n/stats\n/what\n/reset\n/stats\nTwo?\n";
  const CliResult result = cli.Run({"chat", "--address", server.address(), "--output", "json"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::istringstream lines(result.out);
  int events = 0;
  for (std::string line; std::getline(lines, line); ++events) {
    EXPECT_TRUE(nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false).is_object())
        << line;
  }
  EXPECT_EQ(events, 8);
  EXPECT_THAT(result.err, AllOf(HasSubstr("generated tokens     1\n"), HasSubstr("starts again"),
                                HasSubstr("No command /what.")));
}

TEST(Chat, ColourOnlyWhenAsked) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"x"});
  Cli plain;
  plain.terminal = true;
  plain.input = "One?\n";
  EXPECT_THAT(plain.Run({"chat", "--address", server.address()}).out, Not(HasSubstr("\033[")));
  Cli colored;
  colored.terminal = colored.color = true;
  colored.input = "One?\n";
  EXPECT_THAT(colored.Run({"chat", "--address", server.address()}).out,
              HasSubstr("\033[1m> \033[0m"));
}

}  // namespace
}  // namespace folio::cli
