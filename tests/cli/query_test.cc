// --query: which commands take it, what they print then, and what they say about a wrong one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/cli/counting_worker.h"
#include "tests/cli/fixed_manager.h"
#include "tests/cli/golden.h"
#include "tests/cli/run_cli.h"
#include "tests/client/scripted_server.h"
#include "tests/common/temp_dir.h"

namespace folio::cli {
namespace {

using ::folio::testing::AnswerEvents;
using ::folio::testing::Cli;
using ::folio::testing::CliResult;
using ::folio::testing::CountingWorker;
using ::folio::testing::ExpectGolden;
using ::folio::testing::FillManager;
using ::folio::testing::Folioctl;
using ::folio::testing::ScriptedAdmin;
using ::folio::testing::ScriptedServer;
using ::folio::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kNowhere[] = "unix:/tmp/folio-nowhere/socket";

class Query : public ::testing::Test {
 protected:
  Query() { FillManager(admin_); }

  CliResult Ask(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--address", admin_.address()});
    return Folioctl(arguments);
  }
  std::string Pools(const std::string& query, const std::string& output) {
    const CliResult result = Ask({"pools", "--query", query, "--output", output});
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }

  ScriptedAdmin admin_;
};

TEST_F(Query, WithoutOutputTheAnswerIsJson) {
  EXPECT_EQ(Ask({"pools", "--query", "pools[0].page_bytes"}).out, "\"12288\"\n");
  EXPECT_EQ(Ask({"--query=[pools[0].free_pages]", "pools"}).out, "[\n 350\n]\n");
  EXPECT_EQ(Ask({"pools", "--query", "pools[].pool_id | [0]"}).out, "1\n");
  EXPECT_EQ(Ask({"sequences", "--query", "sum(sequences[].to_number(held_bytes))"}).out,
            "1327104\n");
}

TEST_F(Query, AllOfAnAnswerIsAsWithoutIt) {
  ExpectGolden("pools.json", Pools("@", "json"));
  ExpectGolden("pools.yaml", Pools("@", "yaml"));
}

TEST_F(Query, AWholeAnswerMayBeNull) {
  for (const char* output : {"json", "yaml"}) {
    EXPECT_EQ(Pools("pools[7]", output), "null\n") << output;
  }
}

TEST_F(Query, InYamlATextIsBare) {
  EXPECT_EQ(Pools("pools[0].layout.model", "yaml"), "llama\n");
  EXPECT_EQ(Pools("pools[0].layout.model", "json"), "\"llama\"\n");
  EXPECT_EQ(Pools("pools[0].page_bytes", "yaml"), "\"12288\"\n") << "it is no number";
  EXPECT_EQ(Pools("pools[].{z: pool_id, a: workers[].name}", "yaml"),
            "- z: 1\n  a:\n    - worker-a\n");
}

TEST_F(Query, AWrongExpressionIsFoundBeforeAnythingIsSent) {
  for (const auto& [query, words] : std::vector<std::pair<std::string, std::string>>{
           {"pools[", "--query: at character 7, its end"},
           {"pools[?pool_id=`1`]", "'=' is not valid. Did you mean '=='?"},
           {"size(pools)", "there is no function size. Use one of abs"},
           {"length()", "length(): it has 0 arguments and takes 1"},
           {"", "--query"},
       }) {
    const CliResult result = Folioctl({"pools", "--query", query, "--address", kNowhere});
    EXPECT_EQ(result.code, 2) << query;
    EXPECT_THAT(result.err, AllOf(StartsWith("folioctl: "), HasSubstr(words))) << query;
  }
}

TEST_F(Query, AnOutputForPeopleExcludesIt) {
  for (const std::string output : {"table", "wide"}) {
    const CliResult result =
        Folioctl({"pools", "--query", "pools", "--output", output, "--address", kNowhere});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("--output " + output +
                                      " is for people; use --output json or yaml, or leave it"));
  }
}

TEST_F(Query, CommandsThatPrintTextRefuseIt) {
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"completion", "bash"},
           {"man"},
           {"top"},
           {"config", "current-context"},
           {"config", "use-context", "a"},
           {"config", "set-context", "a"},
           {"config", "delete-context", "a"},
       }) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--query", "a"});
    const CliResult result = Folioctl(arguments);
    EXPECT_EQ(result.code, 2) << command[0];
    EXPECT_THAT(result.err, HasSubstr(command[0] == "top" ? "top has no form for programs"
                                                          : "--query selects from JSON, and this "
                                                            "command prints text; leave it out"));
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(Query, AFunctionThatDoesNotFitIsAnInvalidArgument) {
  const CliResult result = Ask({"pools", "--query", "sum(pools[].page_bytes)"});
  EXPECT_EQ(result.code, 5);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              AllOf(StartsWith("folioctl: INVALID_ARGUMENT: --query does not fit the answer: "),
                    HasSubstr("sum(): its argument 1"), HasSubstr("to_number(x)")));
}

TEST_F(Query, AnOrderIsCarriedOutBeforeItsAnswerIsRead) {
  EXPECT_EQ(Ask({"close", "7", "8", "--query", "[].sequence_id"}).out, "[\n \"7\",\n \"8\"\n]\n");
  EXPECT_EQ(Ask({"close", "9", "--query", "abs(@)"}).code, 5);
  EXPECT_EQ(admin_.orders().size(), 3);
}

TEST(QueryStream, ItemsForWhichItGivesNullAreLeftOut) {
  ScriptedServer server;
  server.script.watched.emplace_back().mutable_lost()->set_events(3);
  for (const char* worker : {"w1", "w2", "w1"}) {
    auto* event = server.script.watched.emplace_back().mutable_event();
    event->set_worker_id(worker);
    event->set_pages(static_cast<uint32_t>(server.script.watched.size()));
  }
  const auto events = [&](const std::string& query, const std::string& output) {
    const CliResult result =
        Folioctl({"events", "--query", query, "--output", output, "--address", server.address()});
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(events("event.pages", "json"), "2\n3\n4\n");
  EXPECT_EQ(events("[event][?worker_id=='w1'] | [0].{pages: pages, by: worker_id}", "json"),
            "{\"pages\":2,\"by\":\"w1\"}\n{\"pages\":4,\"by\":\"w1\"}\n");
  EXPECT_EQ(events("lost", "yaml"), "---\nevents: \"3\"\n");
  EXPECT_EQ(events("event.worker_id", "yaml"), "---\nw1\n---\nw2\n---\nw1\n");
  EXPECT_EQ(events("nothing", "json"), "");
}

TEST(QueryStream, AnAnswerIsCutIntoItsTexts) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"Be", "cause"});
  EXPECT_EQ(
      Folioctl({"generate", "Why?", "--query", "chunk.text", "--address", server.address()}).out,
      "\"Be\"\n\"cause\"\n");
  Cli chat;
  chat.input = "Why?\n";
  EXPECT_EQ(chat.Run({"chat", "--query", "finished.usage.generated_tokens", "--address",
                      server.address()})
                .out,
            "2\n");
}

TEST(QueryStream, AFunctionThatDoesNotFitEndsIt) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"Be", "cause"});
  server.script.watched.emplace_back().mutable_lost()->set_events(3);
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"generate", "Why?"}, {"events"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--query", "abs(@)", "--address", server.address()});
    const CliResult result = Folioctl(arguments);
    EXPECT_EQ(result.code, 5) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("abs(): its argument 1 has the type object and not number"));
  }
}

TEST(QueryEverywhere, AnswersThatAreNotMessages) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"It is 42."});
  const CountingWorker worker;
  const TempDir directory;
  const std::string archive = directory / "support.tar.gz";
  for (const auto& [arguments, out] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"compare", "x", "--run", "full", "--query", "runs[].text"}, "[\n \"It is 42.\"\n]\n"},
           {{"health", "--query", "[].serving"}, "[\n true\n]\n"},
           {{"size", "--layers", "2", "--kv_heads", "4", "--head_dim", "8", "--prompt", "100",
             "--query", "prompt_pages > `0`"},
            "true\n"},
           {{"bench", "--concurrency", "2", "--requests", "4", "--query", "results.answered",
             "--address", worker.address()},
            "4\n"},
           {{"support-bundle", archive, "--query", "contents[0].name"},
            "\"folio-support/version.txt\"\n"},
           {{"config", "view", "--query", "type(@)"}, "\"object\"\n"},
           {{"config", "get-contexts", "--query", "contexts"}, "{}\n"},
       }) {
    std::vector<std::string> all = arguments;
    if (arguments[0] != "bench") all.insert(all.end(), {"--address", server.address()});
    const CliResult result = Folioctl(all);
    EXPECT_EQ(result.code, 0) << arguments[0] << ": " << result.err;
    EXPECT_EQ(result.out, out) << arguments[0];
  }
}

TEST(QueryEverywhere, AFailureKeepsItsExitCode) {
  const CliResult health =
      Folioctl({"health", "--query", "[].serving", "--output", "yaml", "--address", kNowhere});
  EXPECT_EQ(health.code, 3);
  EXPECT_EQ(health.out, "- false\n");
  const CliResult doctor =
      Folioctl({"doctor", "--query", "length(@) > `0`", "--address", kNowhere});
  EXPECT_EQ(doctor.code, 8) << doctor.err;
  EXPECT_EQ(doctor.out, "true\n");
}

TEST(QueryEverywhere, HelpCompletionsAndManualHaveIt) {
  EXPECT_THAT(Folioctl({"--help"}).out, HasSubstr("--query"));
  EXPECT_THAT(Folioctl({"man", "events"}).out, HasSubstr("\\fB\\-\\-query\\fR"));
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_THAT(Folioctl({"completion", shell}).out, HasSubstr("query")) << shell;
  }
}

}  // namespace
}  // namespace folio::cli
