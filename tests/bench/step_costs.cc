#include "tests/bench/step_costs.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "folio/v1/kv_manager.pb.h"
#include "tests/bench/append_cost.h"
#include "tests/bench/or_die.h"

namespace folio::bench {

namespace {

constexpr uint32_t kSequences = 8, kContext = 2048, kBudget = 1024, kSteps = 160;
constexpr int kRepeats = 3;

Workload Evicting(bool synchronous) {
  Workload work = {.sequences = kSequences, .context = kContext, .decode_steps = kSteps};
  work.cache.mutable_policy()->mutable_paged_eviction();
  work.cache.set_budget_tokens(kBudget);
  if (synchronous) work.cache.set_eviction_mode(folio::v1::EVICTION_MODE_SYNCHRONOUS);
  return work;
}

Measured BestOf(ServingHarness& harness, const Workload& work) {
  Measured best;
  for (int i = 0; i < kRepeats; ++i) {
    const Measured run = OrDie(harness.Run(work));
    if (i == 0 || run.decode_seconds < best.decode_seconds) best = run;
  }
  return best;
}

void PrintLine(const char* name, const Measured& run) {
  std::printf("  %-34s %8.3f ms/step   waiting %6.3f ms (%.2f %%)\n", name,
              1e3 * run.decode_seconds / run.steps, 1e3 * run.wait_seconds / run.steps,
              100 * run.wait_seconds / run.decode_seconds);
}

// An acknowledgement of nothing: through the stream, the coordinator and back.
void PrintRoundTrip(worker::ManagerLink& link) {
  constexpr int kMessages = 3000;
  std::vector<double> micros;
  for (int i = 0; i < kMessages; ++i) {
    SessionRequest request;
    request.ack.push_back(
        {.sequence = SequenceId(~uint64_t{0}), .lease_epoch = {}, .plan_epoch = {}});
    const SteadyTime start = SteadyNow();
    link.Send(std::move(request));
    if (!link.Receive(start + absl::Seconds(5)).has_value()) {
      std::fprintf(stderr, "folio_bench: no answer: %s\n", link.status().ToString().c_str());
      std::exit(1);
    }
    micros.push_back(absl::ToDoubleMicroseconds(SteadyNow() - start));
  }
  std::sort(micros.begin(), micros.end());
  std::printf("  one session message and its reply: p50 %.0f us, p99 %.0f us\n",
              micros[micros.size() / 2], micros[micros.size() * 99 / 100]);
}

}  // namespace

void PrintManagerCost(
    const worker::LoadedModel& model, int threads, const std::string& kernels,
    const std::function<std::unique_ptr<ManagerSide>(ManagerKind)>& make,
    const std::function<std::unique_ptr<ServingHarness>(std::unique_ptr<ManagerSide>)>& start) {
  std::printf("\nthe manager's price: %u x %u, budget %u\n", kSequences, kContext, kBudget);
  {
    auto manager = make(ManagerKind::kProcess);
    PrintRoundTrip(*manager->link());
    const auto harness = start(std::move(manager));
    PrintLine("manager process, pipelined", BestOf(*harness, Evicting(false)));
    PrintLine("manager process, synchronous", BestOf(*harness, Evicting(true)));
  }
  const auto harness = start(make(ManagerKind::kInProcess));
  const Measured run = BestOf(*harness, Evicting(false));
  PrintLine("coordinator in process, pipelined", run);
  std::printf("  coordinator's own time (deciding included): %.3f ms/step (%.2f %%)\n",
              1e3 * run.manager_seconds / run.steps,
              100 * run.manager_seconds / run.decode_seconds);
  std::printf(
      "  deciding and compacting after prefill: %.2f and %.2f ms a sequence (%.2f %% and "
      "%.2f %% of its prefill)\n",
      1e3 * run.prefill_manager_seconds / kSequences, 1e3 * run.times.compact / kSequences,
      100 * run.prefill_manager_seconds / kSequences / run.prefill_seconds,
      100 * run.times.compact / kSequences / run.prefill_seconds);
  const auto print = [&](const char* name, double micros) {
    std::printf(
        "  %s: %.2f us a token over all layers (%.2f %% of its prefill, %.2f %% of its decode)\n",
        name, micros, 100 * micros * 1e-6 * kContext / run.prefill_seconds,
        100 * micros * 1e-6 * run.decode_tokens / run.decode_seconds);
  };
  print("scoring", ScoringMicros(model.config(), threads, kernels, kernels::ScoreKind::kNormRatio));
  print("clearing pages between tenants", ClearingMicros(model.config(), threads));
}

}  // namespace folio::bench
