#include "services/policy/registry.h"

#include <cstdint>
#include <utility>

#include "services/policy/full.h"
#include "services/policy/inverse_key_norm.h"
#include "services/policy/key_diff.h"
#include "services/policy/paged_eviction.h"
#include "services/policy/query_diff.h"
#include "services/policy/random.h"
#include "services/policy/snap_kv.h"
#include "services/policy/streaming_llm.h"

namespace folio::policy {
namespace {

struct BaseMaker {
  std::shared_ptr<const RankingPolicy> operator()(const PagedEvictionSpec&) const {
    return std::make_shared<const PagedEviction>();
  }
  std::shared_ptr<const RankingPolicy> operator()(const InverseKeyNormSpec&) const {
    return std::make_shared<const InverseKeyNorm>();
  }
  std::shared_ptr<const RankingPolicy> operator()(const KeyDiffSpec&) const {
    return std::make_shared<const KeyDiff>();
  }
  std::shared_ptr<const RankingPolicy> operator()(const SnapKvSpec& spec) const {
    return std::make_shared<const SnapKv>(spec.window, spec.pool);
  }
};

struct Maker {
  std::shared_ptr<const Policy> operator()(const FullSpec&) const {
    return std::make_shared<const Full>();
  }
  std::shared_ptr<const Policy> operator()(const StreamingLlmSpec&) const {
    return std::make_shared<const StreamingLlm>();
  }
  std::shared_ptr<const Policy> operator()(const RandomSpec& spec) const {
    return std::make_shared<const Random>(spec.seed);
  }
  std::shared_ptr<const Policy> operator()(const QueryDiffSpec& spec) const {
    return std::make_shared<const QueryDiff>(spec.options);
  }
  std::shared_ptr<const Policy> operator()(const KvCrushSpec& spec) const {
    return std::make_shared<const KvCrush>(std::visit(BaseMaker(), spec.base), spec.options);
  }
  // What can be a base can stand alone.
  template <typename Spec>
  std::shared_ptr<const Policy> operator()(const Spec& spec) const {
    return BaseMaker()(spec);
  }
};

}  // namespace

std::shared_ptr<const Policy> MakePolicy(const PolicySpec& spec) {
  return std::visit(Maker(), spec);
}

}  // namespace folio::policy
