// folioctl compare and health: several things asked at once, and told together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/run_cli.h"
#include "tests/client/scripted_server.h"

namespace folio::cli {
namespace {

using ::folio::testing::AnswerEvents;
using ::folio::testing::CliResult;
using ::folio::testing::Folioctl;
using ::folio::testing::ScriptedServer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Compare, RunsAllAndJudges) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"It is ", "42", "."});
  server.script.model.mutable_layout()->set_num_layers(2);
  server.script.model.mutable_layout()->set_page_tokens(16);
  const CliResult result = Folioctl({"compare", "x", "--address", server.address(), "--expect",
                                     "42", "--run", "full", "--run", "streaming_llm:64"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("full              \"It is 42.\"\n"),
                                HasSubstr("\nfull              right "),
                                HasSubstr("\nstreaming_llm:64  right ")));
  EXPECT_EQ(server.generate_requests().size(), 2);
  EXPECT_THAT(
      Folioctl({"compare", "x", "--address", server.address(), "--expect", "43", "--run", "full"})
          .out,
      AllOf(HasSubstr("wrong"), Not(HasSubstr("right"))));
}

TEST(Compare, JsonIsOneObject) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"It is ", "42", "."});
  const std::vector<std::string> command = {"compare",  "x",    "--address", server.address(),
                                            "--output", "json", "--expect",  "42",
                                            "--run",    "full", "--run",     "streaming_llm:64"};
  const CliResult result = Folioctl(command);
  EXPECT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["expect"], "42");
  ASSERT_EQ(json["runs"].size(), 2);
  const auto& run = json["runs"][1];
  EXPECT_EQ(run["run"], "streaming_llm:64");
  EXPECT_EQ(run["policy"], "streaming_llm");
  EXPECT_EQ(run["budget_tokens"], 64);
  EXPECT_EQ(run["text"], "It is 42.");
  EXPECT_EQ(run["right"], true);
  EXPECT_EQ(run["finished"]["usage"]["generated_tokens"], 3);
  EXPECT_FALSE(run.contains("error"));
  EXPECT_EQ(json["runs"][0]["run"], "full");

  // What failed is told too, with what came before.
  server.script.events.pop_back();
  server.script.status = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "pool full");
  const CliResult failed = Folioctl(command);
  EXPECT_EQ(failed.code, 6);
  const auto runs = nlohmann::json::parse(failed.out)["runs"];
  ASSERT_EQ(runs.size(), 2);
  EXPECT_EQ(runs[0]["error"]["code"], "RESOURCE_EXHAUSTED");
  EXPECT_EQ(runs[0]["error"]["message"], "pool full");
  EXPECT_EQ(runs[0]["text"], "It is 42.");
  EXPECT_FALSE(runs[0].contains("right") || runs[0].contains("finished"));

  // Without an expectation nothing is judged.
  server.script.events = AnswerEvents({"x"});
  server.script.status = grpc::Status::OK;
  const CliResult plain = Folioctl(
      {"compare", "x", "--address", server.address(), "--output", "json", "--run", "full"});
  EXPECT_FALSE(nlohmann::json::parse(plain.out)["runs"][0].contains("right"));
}

TEST(Health, SaysWhoServes) {
  ScriptedServer server;
  server.SetServing(true);
  const CliResult serving = Folioctl({"health", "--address", server.address()});
  EXPECT_EQ(serving.code, 0) << serving.err;
  EXPECT_THAT(serving.out, HasSubstr("  serving\n"));
  server.SetServing(false);
  const CliResult draining =
      Folioctl({"health", "--address", server.address(), "--output", "json"});
  EXPECT_EQ(draining.code, 3);
  EXPECT_EQ(nlohmann::json::parse(draining.out)[0]["serving"], false);
  EXPECT_THAT(Folioctl({"health", "--address", server.address()}).out,
              HasSubstr("not serving: up, but takes no requests now\n"));
  server.Stop();
  EXPECT_EQ(Folioctl({"health", "--address", server.address()}).code, 3);
}

TEST(Health, TellsEveryFailureAndWhy) {
  ScriptedServer worker;
  worker.SetServing(false);
  setenv("FOLIO_ADDRESS", worker.address().c_str(), 1);
  setenv("FOLIO_MANAGER_ADDRESS", "unix:/tmp/folio-nowhere/m", 1);
  const CliResult result = Folioctl({"health"});
  unsetenv("FOLIO_ADDRESS");
  unsetenv("FOLIO_MANAGER_ADDRESS");
  EXPECT_EQ(result.code, 3);
  for (const std::string& text : {result.out, result.err}) {
    EXPECT_THAT(text, AllOf(HasSubstr("cannot reach the manager"),
                            HasSubstr("up, but takes no requests now")));
  }
  EXPECT_THAT(result.err, AllOf(HasSubstr("manager: "), HasSubstr("; worker: ")));
}

}  // namespace
}  // namespace folio::cli
