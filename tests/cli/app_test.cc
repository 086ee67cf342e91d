#include "services/cli/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/run_cli.h"
#include "tests/client/scripted_server.h"

namespace folio::cli {
namespace {

using ::folio::testing::AnswerEvents;
using ::folio::testing::Cli;
using ::folio::testing::CliResult;
using ::folio::testing::Folioctl;
using ::folio::testing::ScriptedServer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct FailureCase {
  grpc::StatusCode code;
  int exit_code;
};

class ExitCodes : public ::testing::TestWithParam<FailureCase> {};

TEST_P(ExitCodes, FollowTheKindOfFailure) {
  ScriptedServer server;
  server.script.status = grpc::Status(GetParam().code, "the server's words");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"generate", "hi"},
           {"score", "hi", "--continuation", "x"},
           {"tokenize", "hi"},
           {"detokenize", "1"},
           {"model"},
           {"pools"},
           {"sequences"},
           {"sequence", "1"},
           {"compare", "hi", "--run", "full"},
       }) {
    std::vector<std::string> arguments = {"--address", server.address(), "--timeout", "2s"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    const CliResult result = Folioctl(arguments);
    EXPECT_EQ(result.code, GetParam().exit_code) << command[0] << ": " << result.err;
    // Of a deadline the client says it in its own words.
    if (GetParam().code != grpc::StatusCode::DEADLINE_EXCEEDED &&
        GetParam().code != grpc::StatusCode::CANCELLED) {
      EXPECT_THAT(result.err, HasSubstr("the server's words")) << command[0];
    }
    EXPECT_THAT(result.err, StartsWith("folioctl: ")) << command[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Statuses, ExitCodes,
                         ::testing::Values(FailureCase{grpc::StatusCode::UNAVAILABLE, 3},
                                           FailureCase{grpc::StatusCode::NOT_FOUND, 4},
                                           FailureCase{grpc::StatusCode::INVALID_ARGUMENT, 5},
                                           FailureCase{grpc::StatusCode::OUT_OF_RANGE, 5},
                                           FailureCase{grpc::StatusCode::RESOURCE_EXHAUSTED, 6},
                                           FailureCase{grpc::StatusCode::DEADLINE_EXCEEDED, 7},
                                           FailureCase{grpc::StatusCode::FAILED_PRECONDITION, 8},
                                           FailureCase{grpc::StatusCode::INTERNAL, 1},
                                           FailureCase{grpc::StatusCode::UNIMPLEMENTED, 1},
                                           FailureCase{grpc::StatusCode::CANCELLED, 1}));

TEST(Usage, MistakesExitWithTwo) {
  for (const auto& [arguments, words] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{}, "subcommand is required"},
           {{"frobnicate"}, "frobnicate"},
           {{"generate", "hi", "--policy", "lru"}, "no such policy; use full"},
           {{"generate", "hi", "--budget", "many"}, "many"},
           {{"generate", "hi", "--budget", "-1"}, "-1"},
           {{"generate", "hi", "--mode", "eager"}, "eager"},
           {{"generate", "hi", "there"}, "there"},
           {{"generate", "hi", "--file", "x"}, "both a text and --file"},
           {{"generate", "hi", "--system", "x"}, "--system needs --chat"},
           {{"generate", "\xff\xfe"}, "not UTF-8 at byte 0"},
           {{"generate", "hi", "--temperature", "warm"}, "warm"},
           {{"generate", "hi", "--seed", "x"}, "x"},
           {{"generate", "hi", "--no_such_flag"}, "no_such_flag"},
           {{"score", "hi"}, "--continuation is required"},
           {{"sequence"}, "id is required"},
           {{"sequence", "first"}, "first"},
           {{"detokenize"}, "ids is required"},
           {{"detokenize", "-3"}, "-3"},
           {{"compare", "hi"}, "--run is required"},
           {{"compare", "hi", "--run", "lru:16"}, "--run lru:16: policy \"lru\": no such policy"},
           {{"compare", "hi", "--run", "full:many"}, "\"many\" is not a parameter of full"},
           {{"pools", "--output", "xml"}, "xml"},
           {{"pools", "--timeout", "soon"}, "\"soon\" is not a duration"},
           {{"pools", "--timeout", "-1s"}, "not a duration"},
       }) {
    const CliResult result = Folioctl(arguments);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_THAT(result.err,
                AllOf(StartsWith("folioctl: "), HasSubstr(words), HasSubstr("folioctl --help")));
    EXPECT_EQ(result.out, "");
  }
}

TEST(Usage, NothingToReadAtATerminal) {
  Cli cli;
  cli.terminal = true;
  const CliResult result = cli.Run({"generate"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("no text"));
}

TEST(Usage, EveryCommandHasHelpWithExamplesAndExitCodes) {
  const CliResult all = Folioctl({"--help"});
  EXPECT_EQ(all.code, 0);
  for (const char* command : {"generate", "chat", "compare", "score", "tokenize", "detokenize",
                              "model", "pools", "sequences", "sequence", "explain", "health"}) {
    EXPECT_THAT(all.out, HasSubstr(command));
    const CliResult help = Folioctl({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.out, AllOf(HasSubstr("Examples:\n  "), HasSubstr("130 interrupted")));
    EXPECT_EQ(help.err, "") << command;
  }
}

TEST(Address, UnreachableExitsWithThreeAndNamesIt) {
  for (const char* command : {"model", "pools"}) {
    const CliResult result = Folioctl({command, "--address", "unix:/tmp/folio-nowhere/socket"});
    EXPECT_EQ(result.code, 3) << command;
    EXPECT_THAT(result.err, HasSubstr("unix:/tmp/folio-nowhere/socket"));
  }
}

TEST(Address, EnvironmentGivesOneForEachProcess) {
  setenv("FOLIO_ADDRESS", "unix:/tmp/folio-nowhere/w", 1);
  setenv("FOLIO_MANAGER_ADDRESS", "unix:/tmp/folio-nowhere/m", 1);
  EXPECT_THAT(Folioctl({"model"}).err, HasSubstr("unix:/tmp/folio-nowhere/w"));
  EXPECT_THAT(Folioctl({"pools"}).err, HasSubstr("unix:/tmp/folio-nowhere/m"));
  EXPECT_THAT(Folioctl({"pools", "--address", "unix:/tmp/folio-nowhere/x"}).err,
              HasSubstr("unix:/tmp/folio-nowhere/x"));
  unsetenv("FOLIO_ADDRESS");
  unsetenv("FOLIO_MANAGER_ADDRESS");
  setenv("XDG_RUNTIME_DIR", "/tmp/folio-nowhere", 1);
  EXPECT_THAT(Folioctl({"model"}).err, HasSubstr("unix:/tmp/folio-nowhere/folio/worker.sock"));
  EXPECT_THAT(Folioctl({"pools"}).err, HasSubstr("unix:/tmp/folio-nowhere/folio/manager.sock"));
  unsetenv("XDG_RUNTIME_DIR");
}

TEST(Generate, SendsWhatTheFlagsSay) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"ok"});
  const CliResult result = Folioctl({"generate",
                                     "Why?",
                                     "--address",
                                     server.address(),
                                     "--chat",
                                     "--system",
                                     "Be brief.",
                                     "--policy",
                                     "paged_eviction",
                                     "--budget",
                                     "256",
                                     "--sink",
                                     "32",
                                     "--recent",
                                     "48",
                                     "--mode",
                                     "synchronous",
                                     "--max-tokens",
                                     "5",
                                     "--stop",
                                     "a",
                                     "--stop",
                                     "b, c",
                                     "--ignore-eos",
                                     "--temperature",
                                     "0.5",
                                     "--top-k",
                                     "4",
                                     "--top_p",
                                     "0.25",
                                     "--min-p",
                                     "0.125",
                                     "--seed",
                                     "9",
                                     "--logprobs=3",
                                     "--label",
                                     "x"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto request = server.generate_request();
  EXPECT_EQ(request.input().chat().messages(0).content(), "Be brief.");
  EXPECT_EQ(request.input().chat().messages(1).content(), "Why?");
  EXPECT_TRUE(request.cache().policy().has_paged_eviction());
  EXPECT_EQ(request.cache().budget_tokens(), 256);
  EXPECT_EQ(request.cache().sink_tokens(), 32);
  EXPECT_EQ(request.cache().recent_tokens(), 48);
  EXPECT_EQ(request.cache().eviction_mode(), folio::v1::EVICTION_MODE_SYNCHRONOUS);
  EXPECT_EQ(request.max_tokens(), 5);
  ASSERT_EQ(request.stop_size(), 2);
  EXPECT_EQ(request.stop(1), "b, c");
  EXPECT_TRUE(request.ignore_eos());
  EXPECT_EQ(request.sampling().temperature(), 0.5F);
  EXPECT_EQ(request.sampling().top_k(), 4);
  EXPECT_EQ(request.sampling().top_p(), 0.25F);
  EXPECT_EQ(request.sampling().min_p(), 0.125F);
  EXPECT_EQ(request.sampling().seed(), 9);
  EXPECT_EQ(request.logprobs(), 3);
  EXPECT_EQ(request.label(), "x");
}

TEST(Generate, LeavesUnsetWhatIsNotGiven) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"ok"});
  ASSERT_EQ(Folioctl({"generate", "Why?", "--address", server.address()}).code, 0);
  const auto request = server.generate_request();
  EXPECT_EQ(request.input().text(), "Why?");
  EXPECT_TRUE(request.cache().policy().has_full());
  EXPECT_FALSE(request.cache().has_sink_tokens());
  EXPECT_FALSE(request.sampling().has_seed());
  EXPECT_FALSE(request.sampling().has_top_p());
  EXPECT_FALSE(request.has_logprobs());
  EXPECT_FALSE(request.report_evictions());
}

TEST(Generate, ReadsFilesAndStandardInput) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"ok"});
  const std::string file = ::testing::TempDir() + "/prompt.txt";
  std::ofstream(file) << "from a file\n";
  ASSERT_EQ(Folioctl({"generate", "--address", server.address(), "--file", file}).code, 0);
  EXPECT_EQ(server.generate_request().input().text(), "from a file\n");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"generate", "-"}, {"generate"}}) {
    Cli cli;
    cli.input = "from a pipe";
    std::vector<std::string> all = {"--address", server.address()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    ASSERT_EQ(cli.Run(all).code, 0);
    EXPECT_EQ(server.generate_request().input().text(), "from a pipe");
  }
  const CliResult missing =
      Folioctl({"generate", "--address", server.address(), "--file", file + ".missing"});
  EXPECT_EQ(missing.code, 4);
  EXPECT_THAT(missing.err, HasSubstr(".missing: No such file"));
  EXPECT_EQ(Folioctl({"generate", "--address", server.address(), "--", "--help"}).code, 0);
  EXPECT_EQ(server.generate_request().input().text(), "--help");
}

TEST(Generate, TextOnStdoutProgressOnStderr) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"Be", "cause"});
  const CliResult piped = Folioctl({"generate", "Why?", "--address", server.address()});
  EXPECT_EQ(piped.out, "Because\n");
  EXPECT_EQ(piped.err, "");
  Cli cli;
  cli.terminal = true;
  const CliResult shown = cli.Run({"generate", "Why?", "--address", server.address()});
  EXPECT_EQ(shown.out, "Because\n");
  EXPECT_THAT(shown.err, HasSubstr("prefill 40 of 40 tokens (100 %)"));
}

TEST(Generate, ATerminalIsSafeFromTheModel) {
  ScriptedServer server;
  server.script.events =
      AnswerEvents({"a\033[2Jb\xC2\x9B"
                    "c\r\n"});
  Cli cli;
  cli.terminal = true;
  EXPECT_EQ(cli.Run({"generate", "x", "--address", server.address()}).out,
            "a^[[2Jb\xEF\xBF\xBD"
            "c^M\n");
  // A pipe gets the bytes as they are.
  EXPECT_EQ(Folioctl({"generate", "x", "--address", server.address()}).out,
            "a\033[2Jb\xC2\x9B"
            "c\r\n");
}

TEST(Generate, StatsMapAndLogprobs) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"a", "b"});
  server.script.model.mutable_layout()->set_num_layers(2);
  server.script.model.mutable_layout()->set_page_tokens(16);
  server.script.text = "a";
  const CliResult result = Folioctl(
      {"generate", "x", "--address", server.address(), "--stats", "--map", "--logprobs", "0"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("prompt tokens        40\n"), HasSubstr("-0.5000"),
                                HasSubstr("  0-1    41  |####"), HasSubstr("finish reason")));
  EXPECT_TRUE(server.generate_request().report_evictions());
}

TEST(Generate, JsonIsOneEventPerLine) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"a", "b"});
  const CliResult result =
      Folioctl({"generate", "x", "--address", server.address(), "--output", "json", "--stats"});
  std::istringstream lines(result.out);
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(events.size(), 5);
  EXPECT_EQ(events[0]["started"]["sequence_id"], "7");
  EXPECT_EQ(events[2]["chunk"]["text"], "a");
  EXPECT_EQ(events[4]["finished"]["reason"], "FINISH_REASON_LENGTH");
}

TEST(Generate, TimeoutExitsWithSeven) {
  ScriptedServer server;
  server.script.hang = true;
  EXPECT_EQ(Folioctl({"generate", "x", "--address", server.address(), "--timeout", "50ms"}).code,
            7);
  EXPECT_EQ(Folioctl({"pools", "--address", server.address(), "--timeout", "0.05"}).code, 7);
}

TEST(Generate, InterruptStopsItWith130) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"par", "tial"});
  server.script.events.pop_back();
  server.script.hang = true;
  const CliResult result =
      Cli().RunInterrupted({"generate", "x", "--address", server.address()}, server.script.started);
  EXPECT_EQ(result.code, 130);
  EXPECT_EQ(result.out, "partial\n");
  EXPECT_EQ(result.err, "");
}

}  // namespace
}  // namespace folio::cli
