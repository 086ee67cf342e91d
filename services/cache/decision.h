// Running a policy on what a sequence looked like: the part of a commit that needs no lock.
#ifndef FOLIO_SERVICES_CACHE_DECISION_H_
#define FOLIO_SERVICES_CACHE_DECISION_H_

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "services/cache/coordinator_types.h"
#include "services/policy/policy.h"

namespace folio::cache {

// Taken under the lock. The score rows it points at must not be given to anyone else before the
// decision ends; the coordinator sees to that.
struct DecisionInput {
  struct Layer {
    std::vector<const float*> pages;  // float[page_tokens][kv_heads] each
    TokenCount tokens;
  };

  SequenceId sequence;
  std::shared_ptr<const policy::Policy> policy;
  policy::Limits limits;
  uint32_t page_tokens = 0;
  uint32_t kv_heads = 0;
  bool compact = false;  // else drop a block
  PageCount spare;       // with compact
  std::vector<Layer> layers;
};

using Action = std::variant<CompactAction, DropAction>;

// Pure. A policy that breaks its contract (budget, order, protected tokens) ends the process.
Action Decide(const DecisionInput& input);

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_DECISION_H_
