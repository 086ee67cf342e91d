// The object `cache` of a request.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/client/policy_text.h"
#include "services/gateway/openai/common_fields.h"

namespace folio::gateway {
namespace {

constexpr std::array<absl::string_view, 14> kFields = {
    "policy",        "budget",       "schedule",   "sink_tokens",
    "recent_tokens", "mode",         "compaction", "compaction_stride_tokens",
    "layers",        "prompt_share", "segments",   "protect_ends",
    "budget_tokens", "report_kept"};

// The index of the field's value among `words`, or -1.
int OneOf(FieldReader& fields, const char* name, const std::vector<std::string>& words) {
  const auto given = fields.String(name);
  if (!given.has_value()) return -1;
  const auto found = std::find(words.begin(), words.end(), *given);
  if (found != words.end()) return static_cast<int>(found - words.begin());
  fields.Fail(name, absl::StrCat("must be one of ", absl::StrJoin(words, ", ")));
  return -1;
}

// Tokens, a share of the prompt, or tokens for each layer.
void ReadBudget(FieldReader& fields, v1::CacheOptions* cache) {
  const Json* given = fields.Find("budget");
  if (given == nullptr) return;
  if (given->is_array()) {
    for (const uint32_t tokens : fields.Tokens("budget")) cache->add_layer_budget_tokens(tokens);
    return;
  }
  const double share = given->is_number_float() ? given->get<double>() : 0;
  if (share > 0 && share <= 1) {
    cache->set_budget_share(static_cast<float>(share));
  } else if (const auto tokens = IntegerOf(*given); tokens && *tokens >= 0 && *tokens <= kMost32) {
    cache->set_budget_tokens(static_cast<uint32_t>(*tokens));
  } else {
    fields.Fail("budget",
                "must be a number of tokens, a share of the prompt such as 0.25, or a list with a "
                "number of tokens for each layer");
  }
}

void ReadTokens(FieldReader& fields, v1::CacheOptions* cache) {
  const auto tokens = [&](const char* name) -> std::optional<uint32_t> {
    const auto given = fields.Integer(name, 0, kMost32);
    if (!given.has_value()) return std::nullopt;
    return static_cast<uint32_t>(*given);
  };
  if (const auto given = tokens("budget_tokens"); given) cache->set_budget_tokens(*given);
  if (const auto given = tokens("sink_tokens"); given) cache->set_sink_tokens(*given);
  if (const auto given = tokens("recent_tokens"); given) cache->set_recent_tokens(*given);
  if (const auto given = tokens("compaction_stride_tokens"); given) {
    cache->set_compaction_stride_tokens(*given);
  }
  if (const auto given = tokens("segments"); given) cache->set_segments(*given);
  if (const auto share = fields.Number("prompt_share", 0, 0.9); share) {
    cache->set_prompt_share(static_cast<float>(*share));
  }
  if (const auto share = fields.Number("protect_ends", 0, 0.4); share) {
    cache->set_protect_ends(static_cast<float>(*share));
  }
}

void ReadChoices(FieldReader& fields, v1::CacheOptions* cache) {
  // The protocol's enumerators follow the same order, from 1.
  if (const int at = OneOf(fields, "schedule", {"uniform", "pyramid"}); at >= 0) {
    cache->set_budget_schedule(static_cast<v1::BudgetSchedule>(at + 1));
  }
  if (const int at = OneOf(fields, "mode", {"pipelined", "synchronous"}); at >= 0) {
    cache->set_eviction_mode(static_cast<v1::EvictionMode>(at + 1));
  }
  if (const int at = OneOf(fields, "compaction", {"automatic", "whole", "streamed"}); at >= 0) {
    cache->set_compaction(static_cast<v1::Compaction>(at));
  }
  if (const int at = OneOf(fields, "layers", {"per_layer", "shared"}); at >= 0) {
    cache->set_layers(static_cast<v1::Layers>(at + 1));
  }
}

static_assert(v1::BUDGET_SCHEDULE_PYRAMID == 2 && v1::EVICTION_MODE_SYNCHRONOUS == 2);
static_assert(v1::COMPACTION_STREAMED == 2 && v1::LAYERS_SHARED == 2);

}  // namespace

void ReadCache(FieldReader& fields, Call* call, v1::GenerateRequest* request) {
  const Json* given = fields.Object("cache");
  if (given == nullptr) return;
  call->show_cache = true;
  FieldReader inner(*given, "cache.");
  // A misspelt word would cost quality or memory without a sign.
  for (const auto& [name, value] : given->items()) {
    if (std::find(kFields.begin(), kFields.end(), name) == kFields.end()) {
      inner.Fail(name, absl::StrCat("is unknown; the fields are ", absl::StrJoin(kFields, ", ")));
    }
  }
  v1::CacheOptions* cache = request->mutable_cache();
  if (const auto text = inner.String("policy"); text.has_value()) {
    auto policy = client::ParsePolicy(*text);
    if (policy.ok()) {
      *cache->mutable_policy() = *std::move(policy);
    } else {
      inner.Fail("policy", absl::StrCat("is wrong: ", policy.status().message()));
    }
  }
  ReadBudget(inner, cache);
  ReadTokens(inner, cache);
  ReadChoices(inner, cache);
  call->report_kept = inner.Bool("report_kept").value_or(false);
  request->set_report_evictions(call->report_kept);
  if (!inner.status().ok()) fields.Fail(inner.status());
}

}  // namespace folio::gateway
