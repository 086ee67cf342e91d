// What the worker and the manager do against the limits of this machine, in one run.
//   folio_bench --model=MODEL.gguf            every section
//   folio_bench --model=... --peer_cases --json=OUT   the cases that peers are measured on
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "folio/v1/types.pb.h"
#include "kernels/threads/thread_pool.h"
#include "tests/bench/loaded_harness.h"
#include "tests/bench/machine_limits.h"
#include "tests/bench/or_die.h"
#include "tests/bench/policy_costs.h"
#include "tests/bench/serving_harness.h"
#include "tests/bench/step_costs.h"

ABSL_FLAG(std::string, model, "", "GGUF file or Hugging Face directory");
ABSL_FLAG(int, threads, 0, "threads (0: the cores available)");
ABSL_FLAG(std::string, kernels, "auto", "family of bfloat16 kernels");
// The limits and the peers of run.sh have weights in bfloat16.
ABSL_FLAG(std::string, weights, "bfloat16",
          "how quantised matrices are held: bfloat16, as-is, auto; limits are those of bfloat16");
ABSL_FLAG(uint32_t, prefill_chunk, 512, "prompt tokens per step");
ABSL_FLAG(std::vector<std::string>, prompts, (std::vector<std::string>{"512", "2048", "4096"}),
          "prompt lengths for prefill");
ABSL_FLAG(std::vector<std::string>, batches, (std::vector<std::string>{"1", "4", "8", "16"}),
          "sequences decoding together");
ABSL_FLAG(std::vector<std::string>, contexts, (std::vector<std::string>{"1024", "2048", "4096"}),
          "prompt lengths for decode");
ABSL_FLAG(std::vector<std::string>, budgets, (std::vector<std::string>{"0", "1024", "512"}),
          "budgets for decode; 0 is the full cache");
ABSL_FLAG(uint32_t, decode_steps, 48, "measured steps");
ABSL_FLAG(int, repeats, 2, "the best of so many runs counts");
ABSL_FLAG(bool, peer_cases, false, "only the cases of tests/bench/peers");
ABSL_FLAG(bool, manager_cost, true, "measure waiting, round trip, scoring, deciding, compacting");
ABSL_FLAG(std::vector<std::string>, policies, {},
          "policies whose cost is measured, as in folioctl (; for , inside one); all: one of each");
ABSL_FLAG(std::string, json, "", "also write tokens/s by case to this file");

namespace folio::bench {
namespace {

struct Case {
  uint32_t sequences, context, budget;
};

std::vector<uint32_t> Numbers(const std::vector<std::string>& texts) {
  std::vector<uint32_t> out;
  for (const std::string& text : texts) {
    uint32_t value = 0;
    if (!absl::SimpleAtoi(text, &value)) {
      std::fprintf(stderr, "folio_bench: '%s' is no number\n", text.c_str());
      std::exit(2);
    }
    out.push_back(value);
  }
  return out;
}

class Program {
 public:
  Program(const worker::LoadedModel* model, int threads) : model_(model), threads_(threads) {
    const model::ModelConfig& config = model->config();
    const double q = double{1} * config.heads * config.head_dim;
    const double kv = double{1} * config.kv_heads * config.head_dim;
    layer_weights_ =
        config.num_layers * (config.hidden * (2 * q + 2 * kv) + 3.0 * config.hidden * config.ffn);
    // Weights that a decode step reads: every layer once, and the output matrix.
    step_bytes_ = 2 * (layer_weights_ + double{1} * config.vocab * config.hidden);
    // All but an embedding of its own, of a model that is quantised all over.
    if (model->held().as_stored > 0 && config.tied_embeddings) {
      step_bytes_ = static_cast<double>(model->description().weight_bytes());
    }
    attention_flops_ = 4.0 * q * config.num_layers;  // per (query, key) pair
  }

  void MeasureMachine() {
    kernels::ThreadPool pool(threads_);
    bandwidth_ = ReadBandwidth(pool);
    peak_ = PeakFlops(pool);
    std::printf("machine: %d threads, read bandwidth %.1f GB/s, multiply-add peak %.0f GFLOP/s\n",
                threads_, bandwidth_ * 1e-9, peak_ * 1e-9);
    std::printf("kernels: %s; weights read per decode step %.0f MB\n\n",
                model_->description().kernels().c_str(), step_bytes_ * 1e-6);
  }

  void Prefill(ServingHarness& harness, const std::vector<uint32_t>& prompts, uint32_t budget) {
    std::printf(
        "prefill                tokens/s   GFLOP/s  of peak   time in: products  attention  append "
        "and score  scoring on demand  rest\n");
    for (const uint32_t length : prompts) {
      Measured run;
      for (int i = 0; i < absl::GetFlag(FLAGS_repeats); ++i) {
        Measured other = OrDie(harness.Run({.context = length, .cache = Cache(budget)}));
        if (i == 0 || other.prefill_seconds < run.prefill_seconds) run = other;
      }
      const double best = run.prefill_seconds;
      const double flops =
          2 * layer_weights_ * length + attention_flops_ * length * (length + 1.0) / 2;
      const auto share = [&](double seconds) { return 100 * seconds / best; };
      const double known =
          run.times.linear + run.times.attention + run.times.append_score + run.times.score;
      std::printf(
          "  %5u tokens       %9.0f %9.0f  %6.1f %%  %16.1f %%  %7.1f %%  %14.1f %%  %15.2f %%  "
          "%3.1f %%\n",
          length, length / best, flops / best * 1e-9, share(flops / peak_), share(run.times.linear),
          share(run.times.attention), share(run.times.append_score), share(run.times.score),
          share(best - known));
      std::fflush(stdout);
      results_[absl::StrCat("prefill ", length, budget == 0 ? "" : " evict")] = length / best;
    }
    std::printf("\n");
  }

  Measured Decode(ServingHarness& harness, const Case& c) {
    Measured best;
    for (int i = 0; i < absl::GetFlag(FLAGS_repeats); ++i) {
      Workload work = {.sequences = c.sequences,
                       .context = c.context,
                       .decode_steps = absl::GetFlag(FLAGS_decode_steps),
                       .cache = Cache(c.budget)};
      const Measured run = OrDie(harness.Run(work));
      if (i == 0 || Speed(run) > Speed(best)) best = run;
    }
    return best;
  }

  void PrintDecodeHead() const {
    std::printf(
        "decode                          tokens/s   ms/step  of limit  manager wait   time in: "
        "products  attention  scoring  rest\n");
  }
  void PrintDecode(const Case& c, const Measured& run) {
    const double kv = model_->description().kv_bytes_per_token() * run.resident_tokens;
    const double step = run.decode_seconds / run.steps;
    const std::string cache = c.budget == 0 ? "full" : absl::StrCat("budget ", c.budget);
    const auto share = [&](double seconds) { return 100 * seconds / run.decode_seconds; };
    const double known =
        run.decode_times.linear + run.decode_times.attention + run.decode_times.score;
    std::printf(
        "  %2u x %5u  %-12s %12.1f %9.2f  %6.1f %%  %8.2f %%  %16.1f %%  %7.1f %%  %5.2f %%  %3.1f "
        "%%\n",
        c.sequences, c.context, cache.c_str(), Speed(run), step * 1e3,
        100 * (step_bytes_ + kv) / bandwidth_ / step, share(run.wait_seconds),
        share(run.decode_times.linear), share(run.decode_times.attention),
        share(run.decode_times.score), share(run.decode_seconds - known));
    std::fflush(stdout);
  }
  void Keep(const std::string& name, const Measured& run) { results_[name] = Speed(run); }

  // A budget of 0 is the full cache.
  static folio::v1::CacheOptions Cache(uint32_t budget) {
    folio::v1::CacheOptions cache;
    if (budget == 0) return cache;
    cache.mutable_policy()->mutable_paged_eviction();
    cache.set_budget_tokens(budget);
    return cache;
  }
  static double Speed(const Measured& run) { return run.decode_tokens / run.decode_seconds; }

  void WriteJson(const std::string& path) const {
    std::ofstream(path) << nlohmann::json{{"peer", "Folio"},
                                          {"read_gb_per_s", bandwidth_ * 1e-9},
                                          {"peak_gflops", peak_ * 1e-9},
                                          {"results", results_}}
                               .dump(1)
                        << "\n";
  }

 private:
  const worker::LoadedModel* const model_;
  const int threads_;
  double layer_weights_ = 0, step_bytes_ = 0, attention_flops_ = 0;
  double bandwidth_ = 0, peak_ = 0;
  nlohmann::json results_ = nlohmann::json::object();
};

std::vector<std::string> Policies() {
  std::vector<std::string> policies = absl::GetFlag(FLAGS_policies);
  if (policies == std::vector<std::string>{"all"}) {
    return {"full",
            "paged_eviction",
            "kv_crush:paged_eviction",
            "kv_crush:key_diff",
            "streaming_llm",
            "inverse_key_norm",
            "key_diff",
            "snap_kv",
            "query_diff",
            "random"};
  }
  for (std::string& policy : policies) absl::StrReplaceAll({{";", ","}}, &policy);
  return policies;
}

std::string ManagerBinary() {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
  const std::string path(self, length > 0 ? static_cast<size_t>(length) : 0);
  return path.substr(0, path.rfind('/')) + "/folio-manager";
}

int Main() {
  int threads = absl::GetFlag(FLAGS_threads);
  if (threads <= 0) threads = kernels::AvailableCores();
  const auto model = OrDie(worker::LoadedModel::Load({.path = absl::GetFlag(FLAGS_model)},
                                                     {.compute = "bfloat16",
                                                      .kernels = absl::GetFlag(FLAGS_kernels),
                                                      .weights = absl::GetFlag(FLAGS_weights),
                                                      .threads = threads},
                                                     nullptr));
  Program program(model.get(), threads);
  program.MeasureMachine();

  const uint32_t chunk = absl::GetFlag(FLAGS_prefill_chunk);
  constexpr uint64_t kPoolBytes = uint64_t{4} << 30;
  const auto make = [&](ManagerKind kind) {
    return OrDie(MakeManagerSide(kind, model->layout(), kPoolBytes, ManagerBinary()));
  };
  const auto start = [&](std::unique_ptr<ManagerSide> manager) {
    return OrDie(StartHarness(*model, std::move(manager), chunk));
  };
  {
    const auto harness = start(make(ManagerKind::kProcess));
    OrDie(harness->Run({.context = 256, .decode_steps = 4}));  // warm-up
    program.Prefill(*harness, Numbers(absl::GetFlag(FLAGS_prompts)), 0);
    if (absl::GetFlag(FLAGS_peer_cases)) program.Prefill(*harness, {2048}, 1024);
    program.PrintDecodeHead();
    std::vector<Case> cases;
    if (absl::GetFlag(FLAGS_peer_cases)) {
      cases = {{1, 1024, 0},  {8, 1024, 0},    {8, 2048, 0},    {8, 4096, 0},
               {16, 2048, 0}, {8, 2048, 1024}, {8, 4096, 1024}, {16, 2048, 1024}};
    } else {
      for (const uint32_t batch : Numbers(absl::GetFlag(FLAGS_batches)))
        for (const uint32_t context : Numbers(absl::GetFlag(FLAGS_contexts)))
          for (const uint32_t budget : Numbers(absl::GetFlag(FLAGS_budgets)))
            if (budget <= context) cases.push_back({batch, context, budget});
    }
    for (const Case& c : cases) {
      const Measured run = program.Decode(*harness, c);
      program.PrintDecode(c, run);
      program.Keep(absl::StrCat("decode ", c.sequences, " x ", c.context,
                                c.budget == 0      ? ""
                                : c.budget == 1024 ? " evict"
                                                   : absl::StrCat(" budget ", c.budget)),
                   run);
    }
  }
  if (absl::GetFlag(FLAGS_manager_cost) && !absl::GetFlag(FLAGS_peer_cases))
    PrintManagerCost(*model, threads, absl::GetFlag(FLAGS_kernels), make, start);
  if (!absl::GetFlag(FLAGS_policies).empty()) {
    PrintPolicyCosts(*model, threads, absl::GetFlag(FLAGS_kernels), Policies(),
                     [&] { return start(make(ManagerKind::kInProcess)); });
  }
  if (!absl::GetFlag(FLAGS_json).empty()) program.WriteJson(absl::GetFlag(FLAGS_json));
  return 0;
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Prefill and decode as shares of this machine's limits, and what the manager costs.\n"
      "usage: folio_bench --model=MODEL [flags]");
  absl::ParseCommandLine(argc, argv);
  if (absl::GetFlag(FLAGS_model).empty()) {
    std::fprintf(stderr, "folio_bench: --model is required (deploy/fetch_model.sh prints one)\n");
    return 2;
  }
  return folio::bench::Main();
}
