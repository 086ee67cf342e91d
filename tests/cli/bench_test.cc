// folioctl bench, as the whole program, against a worker that counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "services/cli/bench_flags.h"
#include "services/cli/exit_code.h"
#include "tests/cli/counting_worker.h"
#include "tests/cli/run_cli.h"

namespace folio::cli {
namespace {

using ::folio::testing::Cli;
using ::folio::testing::CliResult;
using ::folio::testing::CountingWorker;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> Bench(const std::string& address, std::vector<std::string> more) {
  std::vector<std::string> arguments = {"bench", "--address", address};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

nlohmann::json Measured(const CountingWorker& worker, std::vector<std::string> more, int code = 0) {
  more.push_back("--json=-");
  const CliResult result = folio::testing::Folioctl(Bench(worker.address(), std::move(more)));
  EXPECT_EQ(result.code, code) << result.err;
  return nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
}

TEST(BenchFlags, MistakesNameTheFlagAndTheFix) {
  for (const auto& [arguments, words] :
       std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>>{
           {{"--concurrency", "4", "--request_rate", "2"}, {"--concurrency", "--request_rate"}},
           {{"--concurrency", "0"}, {"--concurrency"}},
           {{"--request_rate", "0"}, {"--request_rate"}},
           {{"--burstiness", "2"}, {"--burstiness", "--request_rate"}},
           {{"--duration", "soon"}, {"--duration \"soon\"", "60s"}},
           {{"--requests", "0"}, {"--requests"}},
           {{"--prompt_tokens", "uniform:9..3"}, {"--prompt_tokens \"uniform:9..3\" ends before"}},
           {{"--output_tokens", "many"}, {"--output_tokens \"many\"", "uniform:LEAST..MOST"}},
           {{"--goodput", "ttft:1s,first:2s"}, {"--goodput \"first:2s\"", "ttft, itl, tpot or"}},
           {{"--resume", "never"}, {"--resume \"never\""}},
           {{"--policy", "lru*2"}, {"--policy", "\"lru\"", "use full"}},
           {{"--policy", "full*0"}, {"--policy full*0", "weight", "above 0"}},
           {{"--policy", "full*nan"}, {"--policy full*nan", "weight"}},
           {{"--json", "/nowhere/at/all.json"}, {"--json /nowhere/at/all.json"}},
       }) {
    const CliResult result = folio::testing::Folioctl(Bench("unix:/nowhere.sock", arguments));
    EXPECT_EQ(result.code, 2) << words[0];
    for (const std::string& word : words) EXPECT_THAT(result.err, HasSubstr(word));
  }
}

TEST(BenchFlags, ThePolicyOfAMixHasABudgetAndAWeight) {
  CacheFlags cache;
  cache.budget = "64";
  auto choice = ParseChoice("kv_crush:key_diff,share=0.5:1024*2.5", cache);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_TRUE(choice->cache.policy().kv_crush().has_key_diff());
  EXPECT_EQ(choice->cache.budget_tokens(), 1024);
  EXPECT_EQ(choice->weight, 2.5);
  EXPECT_EQ(choice->name, "kv_crush:key_diff,share=0.5:1024");
  choice = ParseChoice("paged_eviction*3", cache);
  EXPECT_EQ(choice->cache.budget_tokens(), 64);
  // The common budget is for those that evict.
  choice = ParseChoice("full", cache);
  EXPECT_EQ(choice->cache.budget_tokens(), 0);
  EXPECT_EQ(choice->weight, 1);
}

TEST(BenchFlags, ARunEndsAfterRequestsOrTime) {
  LoadFlags flags;
  auto plan = flags.ToPlan({}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->run.requests, 100);
  EXPECT_EQ(plan->run.clients, 1);
  flags.duration = "90s";
  plan = flags.ToPlan({}, {});
  EXPECT_EQ(plan->run.requests, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(plan->run.duration, absl::Seconds(90));
  flags.requests = 7;
  flags.request_rate = 2;
  flags.resume = "0";
  plan = flags.ToPlan({}, {});
  EXPECT_EQ(plan->run.requests, 7);
  EXPECT_EQ(plan->run.clients, 0);
  EXPECT_EQ(plan->run.resume, absl::ZeroDuration());
}

TEST(Bench, AClosedLoopAsksWithAllItsClients) {
  CountingWorker worker;
  worker.pause = std::chrono::milliseconds(2);
  const auto json =
      Measured(worker, {"--concurrency", "4", "--requests", "20", "--warmup", "3",
                        "--prompt_tokens", "uniform:5..30", "--output_tokens", "10", "--goodput",
                        "ttft:1h", "--policy", "full", "--policy", "streaming_llm:64*4"});
  const auto& results = json["results"];
  EXPECT_EQ(results["answered"], 20);
  EXPECT_EQ(results["failed"], 0);
  EXPECT_EQ(results["output_tokens"], 200);
  EXPECT_EQ(results["most_running"], 4);
  EXPECT_EQ(worker.most_running, 4);
  EXPECT_EQ(results["ttft_ms"]["count"], 20);
  EXPECT_EQ(results["itl_ms"]["count"], 180);
  EXPECT_GE(results["tpot_ms"]["p50"], 2);
  EXPECT_GE(results["e2e_ms"]["mean"], 20);
  EXPECT_GT(results["all_decoding"]["output_tokens"], 0);
  EXPECT_EQ(results["goodput"]["share"], 1);
  EXPECT_EQ(results["by_policy"].size(), 2);
  EXPECT_EQ(json["model"]["device"], "the device");
  EXPECT_EQ(json["settings"]["concurrency"], 4);
  EXPECT_EQ(json["settings"]["policies"][1]["weight"], 4);

  const auto requests = worker.requests();
  ASSERT_EQ(requests.size(), 23) << "those of the warm-up too";
  std::map<bool, int> evicting;
  uint64_t prompts = 0;
  for (size_t i = 3; i < requests.size(); ++i) {
    ++evicting[requests[i].cache().policy().has_streaming_llm()];
    EXPECT_EQ(requests[i].max_tokens(), 10);
    EXPECT_TRUE(requests[i].ignore_eos());
    EXPECT_EQ(requests[i].label(), "folioctl bench");
    prompts += static_cast<uint64_t>(requests[i].input().tokens().ids_size());
  }
  EXPECT_EQ(results["prompt_tokens"], prompts);
  EXPECT_EQ(results["by_policy"][1]["answered"], evicting[true]);
  EXPECT_GT(evicting[true], evicting[false]);
}

TEST(Bench, PromptsAreOfPlainTokensAndRepeat) {
  CountingWorker worker;
  const std::vector<std::string> arguments = {
      "--requests",      "10", "--seed",          "3",
      "--output_tokens", "1",  "--prompt_tokens", "uniform:300..600"};
  Measured(worker, arguments);
  Measured(worker, arguments);
  const auto requests = worker.requests();
  ASSERT_EQ(requests.size(), 20);
  std::vector<bool> seen(CountingWorker::kVocab);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].SerializeAsString(), requests[i % 10].SerializeAsString());
    for (const uint32_t id : requests[i].input().tokens().ids()) seen[id] = true;
  }
  for (uint32_t id = 0; id < CountingWorker::kSpecial; ++id) EXPECT_FALSE(seen[id]) << id;
  EXPECT_FALSE(seen[CountingWorker::kEos]);
  EXPECT_GT(std::count(seen.begin(), seen.end(), true), 550);
}

TEST(Bench, AMessageMayBringSeveralTokens) {
  CountingWorker worker;
  worker.pause = std::chrono::milliseconds(20);
  worker.tokens_per_message = 4;
  const auto results = Measured(worker, {"--requests", "2", "--output_tokens", "12"})["results"];
  EXPECT_EQ(results["output_tokens"], 24);
  EXPECT_EQ(results["itl_ms"]["count"], 4) << "three messages have two gaps";
  EXPECT_GE(results["itl_ms"]["p50"], 19);
  // Two gaps are shared by 11 tokens.
  EXPECT_NEAR(results["tpot_ms"]["mean"], 2 * results["itl_ms"]["mean"].get<double>() / 11, 0.1);
}

TEST(Bench, AnOpenLoopDoesNotWaitForAnswers) {
  CountingWorker worker;
  worker.pause = std::chrono::milliseconds(300);
  worker.queued = true;
  const auto results = Measured(
      worker, {"--request_rate", "100", "--requests", "20", "--output_tokens", "1"})["results"];
  EXPECT_EQ(results["answered"], 20);
  EXPECT_EQ(results["waited"], 20);
  EXPECT_GT(results["most_running"], 10);
  EXPECT_GE(results["ttft_ms"]["p50"], 299);
  EXPECT_EQ(results["itl_ms"]["count"], 0);
  EXPECT_EQ(results["all_decoding"]["output_tokens"], 0);
}

TEST(Bench, ADurationEndsTheAskingAndNotTheAnswers) {
  CountingWorker worker;
  worker.pause = std::chrono::milliseconds(100);
  const auto results = Measured(
      worker, {"--concurrency", "2", "--duration", "250ms", "--output_tokens", "2"})["results"];
  EXPECT_EQ(results["answered"], results["sent"]);
  EXPECT_EQ(results["cut"], 0);
  EXPECT_GE(results["sent"], 2);
  EXPECT_LE(results["sent"], 6);
  EXPECT_GE(results["duration_s"], 0.2);
}

TEST(Bench, FailuresAreCountedByCodeAndExitWithOne) {
  CountingWorker worker;
  worker.status = [](int number) {
    return number % 2 == 0 ? grpc::Status::OK
                           : grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the pool is full");
  };
  const std::vector<std::string> arguments = {"--requests", "6", "--output_tokens", "3"};
  const CliResult table = folio::testing::Folioctl(Bench(worker.address(), arguments));
  EXPECT_EQ(table.code, 1);
  EXPECT_THAT(table.out, HasSubstr("3 answered, 3 RESOURCE_EXHAUSTED"));
  EXPECT_THAT(table.err, HasSubstr("3 of 6 requests failed; the first: RESOURCE_EXHAUSTED: the "
                                   "pool is full"));
  const auto results = Measured(worker, arguments, 1)["results"];
  EXPECT_EQ(results["failures"]["RESOURCE_EXHAUSTED"]["count"], 3);
  EXPECT_EQ(results["output_tokens"], 9) << "of the answers alone";

  std::vector<std::string> allowed = arguments;
  allowed.push_back("--allow_failures");
  EXPECT_EQ(Measured(worker, allowed)["results"]["failed"], 3);
}

TEST(Bench, ALostWorkerIsResumedAtAnother) {
  CountingWorker lost;
  CountingWorker other;
  lost.status = [](int) { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "killed"); };
  const std::string both = lost.address() + "," + other.address();
  CliResult result = folio::testing::Folioctl(
      Bench(both, {"--requests", "4", "--output_tokens", "5", "--json=-"}));
  EXPECT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["results"]["answered"], 4);
  EXPECT_EQ(json["results"]["resumed"], 2);
  EXPECT_EQ(json["workers"].size(), 2);
  EXPECT_EQ(lost.started, 2) << "the addresses are asked in turn";

  result = folio::testing::Folioctl(Bench(both, {"--requests", "2", "--resume", "0"}));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("1 answered, 1 UNAVAILABLE"));

  other.fingerprint = "two";
  result = folio::testing::Folioctl(Bench(both, {}));
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("different models"));
}

TEST(Bench, CtrlCPrintsWhatWasMeasured) {
  CountingWorker worker;
  worker.pause = std::chrono::milliseconds(5);
  Cli cli;
  const CliResult result = cli.RunInterrupted(
      Bench(worker.address(), {"--concurrency", "3", "--duration", "1h", "--output_tokens", "8"}),
      worker.started);
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(result.out, AllOf(HasSubstr(" answered"), HasSubstr(" cut off by Ctrl-C"),
                                HasSubstr("time to first token")));
  EXPECT_EQ(result.err, "");
}

TEST(Bench, TellsItsProgressAtATerminal) {
  CountingWorker worker;
  worker.pause = std::chrono::milliseconds(700);
  Cli cli;
  cli.terminal = true;
  const CliResult result =
      cli.Run(Bench(worker.address(), {"--requests", "1", "--output_tokens", "2"}));
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("\r\033[K0 of 1 answered, 1 running"),
                                ::testing::EndsWith("\r\033[K")));
}

TEST(Bench, LengthsAreCheckedWithTheModel) {
  CountingWorker worker;
  const CliResult result =
      folio::testing::Folioctl(Bench(worker.address(), {"--prompt_tokens", "990"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--prompt_tokens and --output_tokens"),
                                HasSubstr("context of 1000")));
  EXPECT_EQ(worker.started, 0);
}

TEST(Bench, WritesAFileBesideTheTable) {
  CountingWorker worker;
  const std::string file = ::testing::TempDir() + "/folio_bench_test.json";
  const CliResult result = folio::testing::Folioctl(
      Bench(worker.address(), {"--requests", "2", "--output_tokens", "2", "--json", file}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 answered"));
  std::ifstream written(file);
  EXPECT_EQ(nlohmann::json::parse(written)["results"]["answered"], 2);
}

TEST(Bench, HasHelp) {
  const CliResult help = folio::testing::Folioctl({"bench", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("POLICY[:BUDGET][*WEIGHT]"), HasSubstr("Examples:\n  "),
                              HasSubstr("130 interrupted")));
}

TEST(Bench, WithoutAWorkerSaysSo) {
  EXPECT_EQ(folio::testing::Folioctl(Bench("unix:/nowhere.sock", {})).code, 3);
}

}  // namespace
}  // namespace folio::cli
