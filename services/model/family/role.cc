#include "services/model/family/role.h"

#include <iterator>

#include "services/base/check.h"

namespace folio::model {
namespace {

using enum Extent;

// In the order of the enumerators.
constexpr RoleInfo kInfos[] = {
    {Role::kEmbedding, "the embedding", false, kVocab, kHidden, false},
    {Role::kOutput, "the output matrix", false, kOutputs, kHidden, false},
    {Role::kFinalNorm, "the final norm", false, kHidden, kOne, false},
    {Role::kAttentionNorm, "the attention norm", true, kHidden, kOne, false},
    {Role::kFfnNorm, "the feed-forward norm", true, kHidden, kOne, false},
    {Role::kQuery, "the query matrix", true, kQueries, kHidden, true},
    {Role::kKey, "the key matrix", true, kKeys, kHidden, true},
    {Role::kValue, "the value matrix", true, kKeys, kHidden, false},
    {Role::kAttentionOut, "the attention output matrix", true, kHidden, kQueries, false},
    {Role::kGate, "the gate matrix", true, kFfn, kHidden, false},
    {Role::kUp, "the up matrix", true, kFfn, kHidden, false},
    {Role::kDown, "the down matrix", true, kHidden, kFfn, false},
    {Role::kQueryBias, "the query bias", true, kQueries, kOne, true},
    {Role::kKeyBias, "the key bias", true, kKeys, kOne, true},
    {Role::kValueBias, "the value bias", true, kKeys, kOne, false},
    {Role::kQueryNorm, "the query norm", true, kHeadDim, kOne, true},
    {Role::kKeyNorm, "the key norm", true, kHeadDim, kOne, true},
    {Role::kPostAttentionNorm, "the norm behind attention", true, kHidden, kOne, false},
    {Role::kPostFfnNorm, "the norm behind the feed-forward network", true, kHidden, kOne, false},
};

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kInfos); ++i) {
    if (static_cast<size_t>(kInfos[i].role) != i) return false;
  }
  return std::size(kInfos) == kRoles;
}
static_assert(InOrder(), "InfoOf() indexes by the order of the enumerators");

}  // namespace

uint32_t SizeOf(Extent extent, const ModelConfig& config) {
  switch (extent) {
    case kOne:
      return 1;
    case kHidden:
      return config.hidden;
    case kVocab:
      return config.vocab;
    case kOutputs:
      return config.outputs();
    case kQueries:
      return config.heads * config.head_dim;
    case kKeys:
      return config.kv_heads * config.head_dim;
    case kFfn:
      return config.ffn;
    case kHeadDim:
      return config.head_dim;
  }
  FOLIO_CHECK(false);
  return 0;
}

const RoleInfo& InfoOf(Role role) { return kInfos[static_cast<size_t>(role)]; }

}  // namespace folio::model
