#include "services/policy/registry.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "services/policy/full.h"
#include "services/policy/paged_eviction.h"
#include "services/policy/streaming_llm.h"

namespace folio::policy {
namespace {

struct Maker {
  std::shared_ptr<const Policy> operator()(const FullSpec&) const {
    return std::make_shared<const Full>();
  }
  std::shared_ptr<const Policy> operator()(const PagedEvictionSpec&) const {
    return std::make_shared<const PagedEviction>();
  }
  std::shared_ptr<const Policy> operator()(const StreamingLlmSpec&) const {
    return std::make_shared<const StreamingLlm>();
  }
};

absl::Status CheckMultiple(absl::string_view field, TokenCount tokens, uint32_t page_tokens) {
  const uint64_t value = tokens.value();
  if (value % page_tokens == 0) return absl::OkStatus();
  const uint64_t below = value / page_tokens * page_tokens;
  return absl::InvalidArgumentError(
      absl::StrCat(field, " ", value, " is not a multiple of the page size ", page_tokens, ": use ",
                   below, " or ", below + page_tokens));
}

absl::Status CheckBudget(const CacheConfig& config, absl::string_view policy,
                         uint32_t page_tokens) {
  const uint64_t protected_tokens = uint64_t{config.sink.value()} + config.recent.value();
  if (config.budget.value() == 0) {
    const uint64_t least = protected_tokens > page_tokens ? protected_tokens : page_tokens;
    return absl::InvalidArgumentError(absl::StrCat("budget_tokens is missing: policy ", policy,
                                                   " needs a multiple of ", page_tokens,
                                                   ", at least ", least));
  }
  if (absl::Status s = CheckMultiple("budget_tokens", config.budget, page_tokens); !s.ok())
    return s;
  if (protected_tokens > config.budget.value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sink_tokens ", config.sink.value(), " + recent_tokens ", config.recent.value(), " = ",
        protected_tokens, " do not fit budget_tokens ", config.budget.value(),
        ": raise budget_tokens to ", protected_tokens, " or protect fewer tokens"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const CacheConfig& config, uint32_t page_tokens) {
  if (absl::Status s = CheckMultiple("sink_tokens", config.sink, page_tokens); !s.ok()) return s;
  if (absl::Status s = CheckMultiple("recent_tokens", config.recent, page_tokens); !s.ok())
    return s;
  const std::shared_ptr<const Policy> policy = MakePolicy(config.policy);
  if (policy->evicts()) return CheckBudget(config, policy->name(), page_tokens);
  if (config.budget.value() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "budget_tokens ", config.budget.value(), " does not go with policy ", policy->name(),
        ", which keeps every token: leave budget_tokens out or choose a policy that evicts"));
  }
  return absl::OkStatus();
}

std::shared_ptr<const Policy> MakePolicy(const PolicySpec& spec) {
  return std::visit(Maker(), spec);
}

}  // namespace folio::policy
