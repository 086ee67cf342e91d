// folioctl bench puts workers under load and measures their answers.
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "services/cli/bench_flags.h"
#include "services/cli/bench_report.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/options.h"
#include "services/client/streams.h"

namespace folio::cli {
namespace {

struct BenchFlags {
  LoadFlags load;
  ResultsFlags results;
  CacheFlags cache;
  SamplingFlags sampling;
};

// A line on the error stream. At a terminal it is rewritten, and elsewhere there is a new one now
// and then.
class Progress {
 public:
  explicit Progress(Terminal& terminal) : terminal_(terminal), next_(SteadyNow() + Every()) {}
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Calls `describe` if it is time for a line.
  template <typename Describe>
  void Show(const Describe& describe) {
    const SteadyTime now = SteadyNow();
    if (now < next_) return;
    next_ = now + Every();
    if (!terminal_.err_is_tty) {
      terminal_.err << describe() << "\n" << std::flush;
      return;
    }
    shown_ = true;
    terminal_.err << "\r\033[K" << describe() << std::flush;
  }
  void Clear() {
    if (shown_) terminal_.err << "\r\033[K" << std::flush;
    shown_ = false;
  }

 private:
  absl::Duration Every() const { return absl::Seconds(terminal_.err_is_tty ? 0.5 : 10); }

  Terminal& terminal_;
  SteadyTime next_;
  bool shown_ = false;
};

// Asks each worker for its model, and the first one for the tokens of prompts.
absl::Status AskWorkers(const Context& context, const client::ConnectOptions& connect,
                        BenchReport* report) {
  load::RequestPlan& requests = report->plan.requests;
  for (const std::string& address : report->addresses) {
    const auto client = client::Client::Connect(address, connect);
    if (!client.ok()) return client.status();
    auto model = (*client)->GetModel(context.Call());
    if (!model.ok()) return model.status();
    if (!requests.tokens.empty()) {
      if (model->layout().fingerprint() == report->model.layout().fingerprint()) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "the workers have different models: ", report->model.layout().model(), " at ",
          report->addresses[0], " and ", model->layout().model(), " at ", address));
    }
    requests.context = model->context_length();
    if (absl::Status status = load::CheckLengths(requests); !status.ok()) {
      return UsageError(absl::StrCat("--prompt_tokens and --output_tokens: ", status.message()));
    }
    auto tokens = load::FindPlainTokens(**client, *model, context.Call());
    if (!tokens.ok()) return tokens.status();
    requests.tokens = *std::move(tokens);
    report->model = *std::move(model);
  }
  return absl::OkStatus();
}

load::RunResult RunOnce(client::Streams& streams, const BenchPlan& plan, const std::string& prefix,
                        Terminal& terminal) {
  Progress progress(terminal);
  return load::RunLoad(streams, plan.requests, plan.run, [&](const load::RunResult& result) {
    progress.Show([&] { return prefix + DescribeProgress(plan, result); });
  });
}

void WarmUp(client::Streams& streams, const BenchPlan& plan, Terminal& terminal) {
  if (plan.warmup == 0) return;
  BenchPlan warmup = plan;
  warmup.run.requests = plan.warmup;
  warmup.run.duration = absl::InfiniteDuration();
  // The requests that are counted are the same with and without it.
  warmup.run.first_request = uint64_t{1} << 63;
  const load::RunResult result = RunOnce(streams, warmup, "warm-up: ", terminal);
  if (result.all.failed() == 0) return;
  terminal.err << "warm-up: " << DescribeFailures(result.all) << "\n";
}

// Opens the file before the run, so that a wrong name costs no time.
absl::Status OpenFile(const std::string& name, std::ofstream* file) {
  if (name.empty() || name == "-") return absl::OkStatus();
  file->open(name);
  if (*file) return absl::OkStatus();
  return UsageError(absl::StrCat("--json ", name, " cannot be written; name another file"));
}

absl::Status Show(const ResultsFlags& flags, const Context& context, const BenchReport& report,
                  std::ofstream& file) {
  const std::string json = BenchJson(report);
  absl::Status status;
  if (context.structured()) {
    status = context.Print(nlohmann::ordered_json::parse(json));
  } else {
    context.terminal.out << (flags.json == "-" ? json : RenderBench(report, context.terminal));
  }
  // The file has all of it, also where the query does not fit.
  if (!file.is_open()) return status;
  file << json << std::flush;
  if (!file) {
    status.Update(
        absl::DataLossError(absl::StrCat("--json ", flags.json, " could not be written whole")));
  }
  return status;
}

absl::Status Bench(const BenchFlags& flags, Context& context) {
  auto plan = flags.load.ToPlan(flags.cache, flags.sampling);
  if (!plan.ok()) return plan.status();
  if (absl::Status status = flags.results.Fill(&*plan); !status.ok()) return status;
  std::ofstream file;
  if (absl::Status status = OpenFile(flags.results.json, &file); !status.ok()) return status;
  BenchReport report;
  report.addresses = absl::StrSplit(context.WorkerAddress(), ',');
  report.plan = *std::move(plan);
  report.plan.run.workers = report.addresses.size();
  report.plan.run.timeout = context.timeout;
  client::StreamsOptions options;
  auto connect = context.Connection();
  if (!connect.ok()) return connect.status();
  options.connect = *std::move(connect);
  if (absl::Status status = AskWorkers(context, options.connect, &report); !status.ok()) {
    return status;
  }
  options.connections = report.plan.connections;
  const auto streams = client::Streams::Connect(report.addresses, options);
  if (!streams.ok()) return streams.status();

  Terminal& terminal = context.terminal;
  const client::Cancellation& cancellation = report.plan.run.cancellation;
  {
    const Interrupts::Scope scope(&terminal.interrupts, [cancellation] { cancellation.Cancel(); });
    report.date = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
    WarmUp(**streams, report.plan, terminal);
    report.result = RunOnce(**streams, report.plan, "", terminal);
  }
  report.interrupted = cancellation.cancelled();
  if (absl::Status status = Show(flags.results, context, report, file); !status.ok()) return status;
  if (report.interrupted) return absl::CancelledError("the run was interrupted");
  if (report.result.all.failed() == 0 || flags.results.allow_failures) return absl::OkStatus();
  return absl::AbortedError(DescribeFailures(report.result.all));
}

}  // namespace

void AddBench(CLI::App& root, Context& context) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = AddCommand(
      root, "bench", "Put workers under load and measure their answers (worker)",
      "  folioctl bench --concurrency 64 --requests 1000 --prompt_tokens uniform:20..400\n"
      "  folioctl bench --request_rate 8 --duration 60s --goodput ttft:500ms,itl:50ms\n"
      "  folioctl bench --concurrency 64 --policy 'paged_eviction:1024*3' --policy full\n"
      "  folioctl bench --address unix:/a.sock,unix:/b.sock --concurrency 8 --json result.json\n"
      "Requests go to the addresses in turn. The same seed makes the same requests. A message may\n"
      "bring several tokens. As in `vllm bench serve`, the time between tokens is then that\n"
      "between messages, and the time per output token counts all tokens after the first. A\n"
      "failed request gives the exit code 1, and Ctrl-C prints what was measured until then.");
  flags->load.Add(*command);
  flags->results.Add(*command);
  flags->cache.Add(*command);
  flags->sampling.Add(*command);
  auto* policy = command->get_option("--policy");
  policy->description(
      absl::StrCat("POLICY[:BUDGET][*WEIGHT]; may be given several times, and requests are then\n"
                   "spread by the weights (default: 1). Its budget comes before --budget.\n",
                   policy->get_description()));
  policy->multi_option_policy(CLI::MultiOptionPolicy::Join);
  command->get_option("--seed")->description(
      "Repeats prompts, lengths, arrivals and sampled answers (default: 0)");
  SetAction(command, Bench, flags, context);
}

}  // namespace folio::cli
