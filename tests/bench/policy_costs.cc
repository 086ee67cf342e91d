#include "tests/bench/policy_costs.h"

#include <cstdio>
#include <cstdlib>

#include "services/client/policy_text.h"
#include "tests/bench/append_cost.h"

namespace folio::bench {
namespace {

constexpr uint32_t kPrompt = 4096, kSequences = 8, kContext = 2048, kBudget = 1024, kSteps = 160;

template <typename T>
T OrExit(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "folio_bench: %s\n", value.status().ToString().c_str());
  std::exit(1);
}

// The kind that comes with each token, if the policy reads one such.
kernels::ScoreKind AppendedScore(const v1::Policy& policy) {
  const bool base = policy.has_kv_crush();
  const v1::KvCrushPolicy& crush = policy.kv_crush();
  if (policy.has_inverse_key_norm() || (base && crush.has_inverse_key_norm())) {
    return kernels::ScoreKind::kInverseKeyNorm;
  }
  const bool on_demand = base && (crush.has_key_diff() || crush.has_snap_kv());
  if (policy.has_paged_eviction() || (base && !on_demand)) return kernels::ScoreKind::kNormRatio;
  return kernels::ScoreKind::kNone;
}

}  // namespace

void PrintPolicyCosts(const worker::LoadedModel& model, int threads, const std::string& kernels,
                      const std::vector<std::string>& policies,
                      const std::function<std::unique_ptr<ServingRig>()>& start) {
  std::printf(
      "\nwhat each policy costs, budget %u    prompt of %u: scoring  deciding  compacting    "
      "decode %u x %u: tokens/s  scoring  deciding\n",
      kBudget, kPrompt, kSequences, kContext);
  for (const std::string& text : policies) {
    const v1::Policy policy = OrExit(client::ParsePolicy(text));
    Workload prompt = {.sequences = 1, .context = kPrompt, .decode_steps = 4};
    *prompt.cache.mutable_policy() = policy;
    prompt.cache.set_budget_tokens(kBudget);
    Workload decode = prompt;
    decode.sequences = kSequences;
    decode.context = kContext;
    decode.decode_steps = kSteps;

    const double appended =
        AppendedScore(policy) == kernels::ScoreKind::kNone
            ? 0
            : 1e-6 * ScoringMicros(model.config(), threads, kernels, AppendedScore(policy));
    const auto rig = start();
    const Measured p = OrExit(rig->Run(prompt));
    const Measured d = OrExit(rig->Run(decode));
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
