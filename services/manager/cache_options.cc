#include "services/manager/cache_options.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "services/base/invalid_argument.h"
#include "services/manager/policy_message.h"

namespace folio::manager {
namespace {

// The cache keeps every token under `full`, so there is nothing to protect: a request that asks for
// it means another policy. 0 means the same as an unset field.
absl::Status CheckUnprotected(absl::string_view field, uint32_t tokens) {
  if (tokens == 0) return absl::OkStatus();
  return InvalidArgument(field, " ", tokens,
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
      return InvalidArgument("cache.eviction_mode: unknown value ", static_cast<int>(mode),
                             "; use EVICTION_MODE_PIPELINED or EVICTION_MODE_SYNCHRONOUS");
  }
}

absl::StatusOr<policy::Layers> LayersFromProto(v1::Layers layers) {
  switch (layers) {
    case v1::LAYERS_UNSPECIFIED:
    case v1::LAYERS_PER_LAYER:
      return policy::Layers::kPerLayer;
    case v1::LAYERS_SHARED:
      return policy::Layers::kShared;
    default:
      return InvalidArgument("cache.layers: unknown value ", static_cast<int>(layers),
                             "; use LAYERS_PER_LAYER or LAYERS_SHARED");
  }
}

absl::Status CompactionFromProto(const v1::CacheOptions& options, uint32_t page_tokens,
                                 policy::CacheConfig* config) {
  switch (options.compaction()) {
    case v1::COMPACTION_UNSPECIFIED:
      config->compaction = policy::Compaction::kAutomatic;
      break;
    case v1::COMPACTION_WHOLE:
      config->compaction = policy::Compaction::kWhole;
      break;
    case v1::COMPACTION_STREAMED:
      config->compaction = policy::Compaction::kStreamed;
      break;
    default:
      return InvalidArgument("cache.compaction: unknown value ",
                             static_cast<int>(options.compaction()),
                             "; use COMPACTION_WHOLE or COMPACTION_STREAMED");
  }
  const uint32_t stride = options.compaction_stride_tokens();
  if (stride > 0) {
    if (config->compaction != policy::Compaction::kStreamed) {
      return InvalidArgument("compaction_stride_tokens ", stride,
                             " is for compaction streamed: ask for that too, or leave it out");
    }
    config->compaction_stride = TokenCount(stride);
    return absl::OkStatus();
  }
  const uint32_t wanted = policy::kDefaultStride.value();
  config->compaction_stride = TokenCount((wanted + page_tokens - 1) / page_tokens * page_tokens);
  return absl::OkStatus();
}

absl::StatusOr<policy::BudgetRequest> BudgetFromProto(const v1::CacheOptions& options) {
  policy::BudgetRequest budget;
  budget.share = options.budget_share();
  for (const uint32_t tokens : options.layer_budget_tokens()) budget.per_layer.emplace_back(tokens);
  // OpenResult names the largest of them in budget_tokens too, and a client may send it back.
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
      return InvalidArgument("cache.budget_schedule: unknown value ",
                             static_cast<int>(options.budget_schedule()),
                             "; use BUDGET_SCHEDULE_UNIFORM or BUDGET_SCHEDULE_PYRAMID");
  }
}

}  // namespace

absl::StatusOr<policy::CacheConfig> CacheConfigFromProto(const v1::CacheOptions& options,
                                                         const CacheRules& rules,
                                                         const RequestShape& request) {
  policy::CacheConfig config;
  policy::PolicySpec spec = policy::FullSpec{};
  if (options.has_policy()) {
    auto given = PolicyFromProto(options.policy(), request.sampling_seed);
    if (!given.ok()) return given.status();
    spec = *std::move(given);
  }
  if (std::holds_alternative<policy::FullSpec>(spec)) {
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
  auto layers = LayersFromProto(options.layers());
  if (!layers.ok()) return layers.status();
  config.layers = *layers;
  config.shares = {options.prompt_share(), options.protect_ends(),
                   std::max(options.segments(), uint32_t{1})};
  if (absl::Status s = CompactionFromProto(options, rules.page_tokens, &config); !s.ok()) return s;
  // ResolveBudget asks the policy how much a share of the prompt must hold at least.
  auto policy = policy::ChosenPolicy::Make(spec);
  if (!policy.ok()) return policy.status();
  config.policy = *std::move(policy);
  // The smallest budget is computed from them.
  absl::Status shares = policy::CheckShares(config.shares, config.policy->traits());
  if (!shares.ok()) return shares;
  auto budget = BudgetFromProto(options);
  if (!budget.ok()) return budget.status();
  const policy::SequenceShape shape = {request.prompt_tokens, request.max_new_tokens,
                                       rules.num_layers, rules.page_tokens};
  absl::Status resolved = policy::ResolveBudget(*budget, rules.budgets, shape, &config);
  if (!resolved.ok()) return resolved;
  if (!options.has_prompt_share()) {
    config.shares.prompt = policy::DefaultPromptShare(config.policy->traits(), config.recent,
                                                      config.smallest_budget());
  }
  return config;
}

v1::CacheOptions CacheConfigToProto(const policy::CacheConfig& config) {
  v1::CacheOptions options;
  *options.mutable_policy() = PolicyToProto(config.policy.spec());
  options.set_budget_tokens(config.budget.value());
  for (const TokenCount budget : config.layer_budgets) {
    options.add_layer_budget_tokens(budget.value());
  }
  options.set_sink_tokens(config.sink.value());
  options.set_recent_tokens(config.recent.value());
  options.set_eviction_mode(config.mode == policy::EvictionMode::kSynchronous
                                ? v1::EVICTION_MODE_SYNCHRONOUS
                                : v1::EVICTION_MODE_PIPELINED);
  options.set_layers(config.layers == policy::Layers::kShared ? v1::LAYERS_SHARED
                                                              : v1::LAYERS_PER_LAYER);
  options.set_prompt_share(config.shares.prompt);
  options.set_protect_ends(config.shares.ends);
  options.set_segments(config.shares.segments == 1 ? 0 : config.shares.segments);
  const bool streamed = config.compaction == policy::Compaction::kStreamed;
  options.set_compaction(streamed ? v1::COMPACTION_STREAMED : v1::COMPACTION_WHOLE);
  if (streamed) options.set_compaction_stride_tokens(config.compaction_stride.value());
  return options;
}

}  // namespace folio::manager
