// A sequence's cache settings: policies, budgets, protected tokens.
#include <utility>

#include "services/common/refuse.h"
#include "services/manager/convert.h"

namespace folio::manager {
namespace {

policy::SnapKvSpec SnapKvFromProto(const v1::SnapKvPolicy& policy) {
  policy::SnapKvSpec spec;
  if (policy.has_window()) spec.window = policy.window();
  if (policy.has_pool()) spec.pool = policy.pool();
  return spec;
}

policy::QueryDiffSpec QueryDiffFromProto(const v1::QueryDiffPolicy& policy) {
  policy::QueryDiffSpec spec;
  if (policy.has_share()) spec.options.share = policy.share();
  if (policy.has_window()) spec.options.window = policy.window();
  if (policy.has_pool()) spec.options.pool = policy.pool();
  return spec;
}

absl::StatusOr<policy::CrushAnchor> AnchorFromProto(v1::CrushAnchor anchor) {
  switch (anchor) {
    case v1::CRUSH_ANCHOR_UNSPECIFIED:
    case v1::CRUSH_ANCHOR_MEAN:
      return policy::CrushAnchor::kMean;
    case v1::CRUSH_ANCHOR_ALTERNATING:
      return policy::CrushAnchor::kAlternating;
    case v1::CRUSH_ANCHOR_ZEROS:
      return policy::CrushAnchor::kZeros;
    case v1::CRUSH_ANCHOR_ONES:
      return policy::CrushAnchor::kOnes;
    case v1::CRUSH_ANCHOR_RANDOM:
      return policy::CrushAnchor::kRandom;
    default:
      return Refuse("cache.policy.kv_crush.anchor: unknown value ", static_cast<int>(anchor),
                    "; use CRUSH_ANCHOR_MEAN, _ALTERNATING, _ZEROS, _ONES or _RANDOM");
  }
}

absl::StatusOr<policy::PolicySpec> KvCrushFromProto(const v1::KvCrushPolicy& policy) {
  policy::KvCrushSpec spec;
  switch (policy.base_case()) {
    case v1::KvCrushPolicy::kPagedEviction:
    case v1::KvCrushPolicy::BASE_NOT_SET:
      spec.base = policy::PagedEvictionSpec{};
      break;
    case v1::KvCrushPolicy::kInverseKeyNorm:
      spec.base = policy::InverseKeyNormSpec{};
      break;
    case v1::KvCrushPolicy::kKeyDiff:
      spec.base = policy::KeyDiffSpec{};
      break;
    case v1::KvCrushPolicy::kSnapKv:
      spec.base = SnapKvFromProto(policy.snap_kv());
      break;
  }
  if (policy.has_share()) spec.options.share = policy.share();
  auto anchor = AnchorFromProto(policy.anchor());
  if (!anchor.ok()) return anchor.status();
  spec.options.anchor = *anchor;
  spec.options.seed = policy.seed();
  spec.options.prefill_only = policy.prefill_only();
  return spec;
}

absl::StatusOr<policy::PolicySpec> PolicyFromProto(const v1::CacheOptions& options,
                                                   uint64_t sampling_seed) {
  if (!options.has_policy()) return policy::FullSpec{};
  const v1::Policy& policy = options.policy();
  switch (policy.kind_case()) {
    case v1::Policy::kFull:
      return policy::FullSpec{};
    case v1::Policy::kPagedEviction:
      return policy::PagedEvictionSpec{};
    case v1::Policy::kStreamingLlm:
      return policy::StreamingLlmSpec{};
    case v1::Policy::kInverseKeyNorm:
      return policy::InverseKeyNormSpec{};
    case v1::Policy::kKeyDiff:
      return policy::KeyDiffSpec{};
    case v1::Policy::kSnapKv:
      return SnapKvFromProto(policy.snap_kv());
    case v1::Policy::kRandom:
      return policy::RandomSpec{policy.random().has_seed() ? policy.random().seed()
                                                           : sampling_seed};
    case v1::Policy::kKvCrush:
      return KvCrushFromProto(policy.kv_crush());
    case v1::Policy::kQueryDiff:
      return QueryDiffFromProto(policy.query_diff());
    case v1::Policy::KIND_NOT_SET:
      break;
  }
  return Refuse(
      "cache.policy: no known kind is set; use full, paged_eviction, streaming_llm, "
      "inverse_key_norm, key_diff, snap_kv, query_diff, random or kv_crush");
}

// The cache keeps every token under `full`, so that there is nothing to protect: whoever asks for
// it means another policy. 0 says as much as leaving it out.
absl::Status CheckUnprotected(absl::string_view field, uint32_t tokens) {
  if (tokens == 0) return absl::OkStatus();
  return Refuse(field, " ", tokens,
                " does not go with policy full, which keeps every token: leave ", field,
                " out or choose a policy that evicts");
}

absl::StatusOr<policy::EvictionMode> ModeFromProto(v1::EvictionMode mode) {
  switch (mode) {
    case v1::EVICTION_MODE_UNSPECIFIED:
    case v1::EVICTION_MODE_PIPELINED:
      return policy::EvictionMode::kPipelined;
    case v1::EVICTION_MODE_SYNCHRONOUS:
      return policy::EvictionMode::kSynchronous;
    default:
      return Refuse("cache.eviction_mode: unknown value ", static_cast<int>(mode),
                    "; use EVICTION_MODE_PIPELINED or EVICTION_MODE_SYNCHRONOUS");
  }
}

absl::StatusOr<policy::BudgetRequest> BudgetFromProto(const v1::CacheOptions& options) {
  policy::BudgetRequest budget;
  budget.share = options.budget_share();
  for (const uint32_t tokens : options.layer_budget_tokens()) budget.per_layer.emplace_back(tokens);
  // An answer names the largest of them too, and may be sent again.
  const bool largest = !budget.per_layer.empty() &&
                       *std::max_element(budget.per_layer.begin(), budget.per_layer.end()) ==
                           TokenCount(options.budget_tokens());
  if (!largest) budget.tokens = TokenCount(options.budget_tokens());
  switch (options.budget_schedule()) {
    case v1::BUDGET_SCHEDULE_UNSPECIFIED:
    case v1::BUDGET_SCHEDULE_UNIFORM:
      return budget;
    case v1::BUDGET_SCHEDULE_PYRAMID:
      budget.schedule = policy::BudgetSchedule::kPyramid;
      return budget;
    default:
      return Refuse("cache.budget_schedule: unknown value ",
                    static_cast<int>(options.budget_schedule()),
                    "; use BUDGET_SCHEDULE_UNIFORM or BUDGET_SCHEDULE_PYRAMID");
  }
}

struct PolicyWriter {
  v1::Policy* out;
  void operator()(const policy::FullSpec&) const { out->mutable_full(); }
  void operator()(const policy::StreamingLlmSpec&) const { out->mutable_streaming_llm(); }
  void operator()(const policy::RandomSpec& spec) const {
    out->mutable_random()->set_seed(spec.seed);
  }
  void operator()(const policy::QueryDiffSpec& spec) const {
    v1::QueryDiffPolicy* query_diff = out->mutable_query_diff();
    query_diff->set_share(spec.options.share);
    query_diff->set_window(spec.options.window);
    query_diff->set_pool(spec.options.pool);
  }
  void operator()(const policy::KvCrushSpec& spec) const;
  template <typename Spec>
  void operator()(const Spec& spec) const;
};

// What can be a base, into a Policy or a KvCrushPolicy.
template <typename Message>
struct BaseWriter {
  Message* out;
  void operator()(const policy::PagedEvictionSpec&) const { out->mutable_paged_eviction(); }
  void operator()(const policy::InverseKeyNormSpec&) const { out->mutable_inverse_key_norm(); }
  void operator()(const policy::KeyDiffSpec&) const { out->mutable_key_diff(); }
  void operator()(const policy::SnapKvSpec& spec) const {
    out->mutable_snap_kv()->set_window(spec.window);
    out->mutable_snap_kv()->set_pool(spec.pool);
  }
};

template <typename Spec>
void PolicyWriter::operator()(const Spec& spec) const {
  BaseWriter<v1::Policy>{out}(spec);
}

void PolicyWriter::operator()(const policy::KvCrushSpec& spec) const {
  v1::KvCrushPolicy* crush = out->mutable_kv_crush();
  std::visit(BaseWriter<v1::KvCrushPolicy>{crush}, spec.base);
  crush->set_share(spec.options.share);
  crush->set_anchor(static_cast<v1::CrushAnchor>(static_cast<int>(spec.options.anchor) + 1));
  crush->set_seed(spec.options.seed);
  crush->set_prefill_only(spec.options.prefill_only);
}

// The protocol's numbers are ours, after an unset one.
static_assert(static_cast<int>(policy::CrushAnchor::kMean) + 1 == v1::CRUSH_ANCHOR_MEAN &&
              static_cast<int>(policy::CrushAnchor::kRandom) + 1 == v1::CRUSH_ANCHOR_RANDOM);
static_assert(static_cast<int>(policy::ScoreKind::kUnrotatedDifference) ==
                  v1::SCORE_KIND_UNROTATED_DIFFERENCE &&
              static_cast<int>(policy::ScoreTime::kPageFill) == v1::SCORE_TIME_PAGE_FILL);

}  // namespace

absl::StatusOr<policy::CacheConfig> CacheConfigFromProto(const v1::CacheOptions& options,
                                                         const CacheRules& rules,
                                                         const RequestShape& request) {
  policy::CacheConfig config;
  auto spec = PolicyFromProto(options, request.sampling_seed);
  if (!spec.ok()) return spec.status();
  config.policy = *spec;
  if (std::holds_alternative<policy::FullSpec>(*spec)) {
    absl::Status status = CheckUnprotected("sink_tokens", options.sink_tokens());
    status.Update(CheckUnprotected("recent_tokens", options.recent_tokens()));
    if (!status.ok()) return status;
  } else {
    const uint32_t page = rules.page_tokens;
    config.sink = TokenCount(options.has_sink_tokens() ? options.sink_tokens() : page);
    config.recent = TokenCount(options.has_recent_tokens() ? options.recent_tokens() : page);
  }
  auto mode = ModeFromProto(options.eviction_mode());
  if (!mode.ok()) return mode.status();
  config.mode = *mode;
  // The policy's parameters tell how much a share of the prompt must hold at least.
  if (absl::Status s = policy::ValidateParameters(config.policy); !s.ok()) return s;
  auto budget = BudgetFromProto(options);
  if (!budget.ok()) return budget.status();
  const policy::SequenceShape shape = {request.prompt_tokens, request.max_new_tokens,
                                       rules.num_layers, rules.page_tokens};
  absl::Status resolved = policy::ResolveBudget(*budget, rules.budgets, shape, &config);
  if (!resolved.ok()) return resolved;
  return config;
}

v1::CacheOptions CacheConfigToProto(const policy::CacheConfig& config) {
  v1::CacheOptions options;
  std::visit(PolicyWriter{options.mutable_policy()}, config.policy);
  options.set_budget_tokens(config.budget.value());
  for (const TokenCount budget : config.layer_budgets) {
    options.add_layer_budget_tokens(budget.value());
  }
  options.set_sink_tokens(config.sink.value());
  options.set_recent_tokens(config.recent.value());
  options.set_eviction_mode(config.mode == policy::EvictionMode::kSynchronous
                                ? v1::EVICTION_MODE_SYNCHRONOUS
                                : v1::EVICTION_MODE_PIPELINED);
  return options;
}

v1::ScoreNeed ScoreNeedToProto(const policy::ScoreNeed& need) {
  v1::ScoreNeed out;
  out.set_kind(static_cast<v1::ScoreKind>(need.kind));
  out.set_time(static_cast<v1::ScoreTime>(need.time));
  out.set_window(need.window);
  out.set_pool(need.pool);
  return out;
}

}  // namespace folio::manager
