#include "services/cli/bench_flags.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/cli/exit_code.h"

namespace folio::cli {
namespace {

constexpr uint64_t kDefaultRequests = 100;
constexpr uint32_t kDefaultConcurrency = 1;
// The calls that a worker allows on 8 connections.
constexpr uint32_t kMostConcurrency = 16'384;

template <typename T>
absl::Status FromFlag(absl::string_view flag, absl::StatusOr<T> parsed, T* to) {
  if (!parsed.ok()) return UsageError(absl::StrCat(flag, " ", parsed.status().message()));
  *to = *std::move(parsed);
  return absl::OkStatus();
}

absl::Status DurationFromFlag(absl::string_view flag, const std::string& text, absl::Duration* to) {
  if (ParseTimeout(text, to)) return absl::OkStatus();
  return UsageError(absl::StrCat(flag, " \"", text, "\" is not a duration like 60s or 5m"));
}

}  // namespace

absl::StatusOr<load::Choice> ParseChoice(const std::string& text, const CacheFlags& cache) {
  load::Choice choice;
  const size_t star = text.rfind('*');
  choice.name = text.substr(0, star);
  if (star != std::string::npos) {
    const std::string weight = text.substr(star + 1);
    if (!absl::SimpleAtod(weight, &choice.weight) || !(choice.weight > 0) ||
        !std::isfinite(choice.weight)) {
      return UsageError(absl::StrCat("--policy ", text, ": \"", weight,
                                     "\" is not a weight; give a number above 0"));
    }
  }
  CacheFlags flags = cache.With(choice.name);
  const bool own_budget = flags.policy != choice.name;
  // In a mix, these are for the policies that evict.
  if (flags.policy == "full" && !own_budget) {
    flags.budget.clear();
    flags.layers = "per_layer";
    flags.prompt_share.reset();
    flags.protect_ends = 0;
    flags.segments = 1;
  }
  auto proto = flags.ToProto();
  if (!proto.ok()) return UsageError(absl::StrCat("--policy ", proto.status().message()));
  choice.cache = *std::move(proto);
  return choice;
}

void LoadFlags::Add(CLI::App& command) {
  auto* clients = command.add_option(
      "--concurrency", concurrency,
      "Closed loop: so many clients, each of which asks again when it has its answer (default: 1)");
  clients->check(CLI::Range(uint32_t{1}, kMostConcurrency));
  auto* rate = command.add_option(
      "--request_rate", request_rate,
      "Open loop: so many requests per second on average, whether or not others are answered.\n"
      "They arrive independently of each other (a Poisson process)");
  rate->check(CLI::Range(1e-6, 1e6))->excludes(clients);
  command
      .add_option("--burstiness", burstiness,
                  "Shape of the gamma distribution of the times between arrivals: below 1 they\n"
                  "come in bursts, and above 1 evenly")
      ->check(CLI::Range(1e-3, 1e6))
      ->needs(rate)
      ->capture_default_str();
  command
      .add_option("--requests", requests,
                  "Ask so many times (default: 100, or without an end if --duration is given)")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
  command.add_option("--duration", duration,
                     "Ask no more after this time, e.g. 60s, and wait for the answers");
  command
      .add_option("--warmup", warmup,
                  "So many requests come first, in the same way, and are not counted")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 40))
      ->capture_default_str();
  command
      .add_option("--prompt_tokens", prompt_tokens,
                  "Length of prompts, which are random tokens: a number, uniform:LEAST..MOST,\n"
                  "or lognormal:MEAN,SIGMA, which is cut at the model's context")
      ->capture_default_str();
  command
      .add_option("--output_tokens", output_tokens,
                  "Length of answers in the same forms. It is exact unless --stop_at_eos is given")
      ->capture_default_str();
  command.add_flag("--stop_at_eos", stop_at_eos,
                   "Let answers end at the model's end token, before their length is reached");
  command
      .add_option("--resume", resume,
                  "When a worker is lost, look so long for one that continues (0: not at all)")
      ->capture_default_str();
  command
      .add_option("--connections", connections,
                  "Connections to each worker, over which the requests are spread")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
}

absl::StatusOr<BenchPlan> LoadFlags::ToPlan(const CacheFlags& cache,
                                            const SamplingFlags& sampling) const {
  BenchPlan plan;
  load::RequestPlan& made = plan.requests;
  absl::Status status =
      FromFlag("--prompt_tokens", load::Lengths::Parse(prompt_tokens), &made.prompt);
  status.Update(FromFlag("--output_tokens", load::Lengths::Parse(output_tokens), &made.output));
  if (!duration.empty()) {
    status.Update(DurationFromFlag("--duration", duration, &plan.run.duration));
  }
  if (resume != "0") status.Update(DurationFromFlag("--resume", resume, &plan.run.resume));
  if (!status.ok()) return status;
  // Several --policy are joined by line breaks.
  for (const absl::string_view text : absl::StrSplit(cache.policy, '\n')) {
    auto choice = ParseChoice(std::string(text), cache);
    if (!choice.ok()) return choice.status();
    made.mix.push_back(*std::move(choice));
  }
  made.sampling = sampling.ToProto();
  made.seed = sampling.seed.value_or(0);
  made.stop_at_eos = stop_at_eos;
  made.label = "folioctl bench";
  if (request_rate.has_value()) {
    plan.run.rate = *request_rate;
    plan.run.burstiness = burstiness;
  } else {
    plan.run.clients = concurrency.value_or(kDefaultConcurrency);
  }
  if (requests.has_value() || duration.empty()) {
    plan.run.requests = requests.value_or(kDefaultRequests);
  }
  plan.warmup = warmup;
  plan.connections = connections;
  return plan;
}

void ResultsFlags::Add(CLI::App& command) {
  command.add_option(
      "--goodput", goodput,
      "Count the answers that keep these bounds, such as ttft:500ms,itl:50ms,e2e:10s.\n"
      "ttft is the time to the first token, itl the mean time between messages with tokens,\n"
      "tpot the mean time per output token after the first, and e2e the whole time");
  command.add_option("--json", json,
                     "Write settings and results to this file (-: to stdout instead of tables)");
  command.add_flag("--allow_failures", allow_failures, "Exit with 0 also if requests have failed");
}

absl::Status ResultsFlags::Fill(BenchPlan* plan) const {
  if (goodput.empty()) return absl::OkStatus();
  return FromFlag("--goodput", load::Goals::Parse(goodput), &plan->run.goals);
}

}  // namespace folio::cli
