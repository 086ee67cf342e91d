#include "tests/bench/policy_costs.h"

#include <cstdio>

#include "services/client/policy_text.h"
#include "services/manager/cache_options.h"
#include "tests/bench/append_cost.h"
#include "tests/bench/or_die.h"

namespace folio::bench {
namespace {

constexpr uint32_t kPrompt = 4096, kSequences = 8, kContext = 2048, kBudget = 1024, kSteps = 160;

// The kind of score that comes with each token, if the policy reads one such.
ScoreKind AppendedScore(const v1::CacheOptions& cache) {
  const auto config = OrDie(manager::CacheConfigFromProto(cache, {}, {.prompt_tokens = kPrompt}));
  const ScoreKind kind = config.policy->traits().scores.kind;
  return WrittenAtAppend(kind) ? kind : ScoreKind::kNone;
}

}  // namespace

void PrintPolicyCosts(const worker::LoadedModel& model, int threads, const std::string& kernels,
                      const std::vector<std::string>& policies,
                      const std::function<std::unique_ptr<ServingHarness>()>& start) {
  std::printf(
      "\nwhat each policy costs, budget %u    prompt of %u: scoring  deciding  compacting    "
      "decode %u x %u: tokens/s  scoring  deciding\n",
      kBudget, kPrompt, kSequences, kContext);
  for (const std::string& text : policies) {
    Workload prompt = {.sequences = 1, .context = kPrompt, .decode_steps = 4};
    *prompt.cache.mutable_policy() = OrDie(client::ParsePolicy(text));
    if (!prompt.cache.policy().has_full()) prompt.cache.set_budget_tokens(kBudget);
    Workload decode = prompt;
    decode.sequences = kSequences;
    decode.context = kContext;
    decode.decode_steps = kSteps;

    const kernels::ScoreKind kind = AppendedScore(prompt.cache);
    const double appended = kind == kernels::ScoreKind::kNone
                                ? 0
                                : 1e-6 * ScoringMicros(model.config(), threads, kernels, kind);
    const auto harness = start();
    const Measured p = OrDie(harness->Run(prompt));
    const Measured d = OrDie(harness->Run(decode));
    const auto share = [](double part, double whole) { return 100 * part / whole; };
    std::printf("  %-42s %18.2f %% %7.2f %% %9.2f %% %24.1f %7.2f %% %7.2f %%\n", text.c_str(),
                share(p.times.score - p.decode_times.score + appended * kPrompt, p.prefill_seconds),
                share(p.prefill_manager_seconds, p.prefill_seconds),
                share(p.times.compact, p.prefill_seconds), d.decode_tokens / d.decode_seconds,
                share(d.decode_times.score + appended * d.decode_tokens, d.decode_seconds),
                share(d.manager_seconds, d.decode_seconds));
    std::fflush(stdout);
  }
}

}  // namespace folio::bench
