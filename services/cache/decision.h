// Running a policy on what a sequence looked like: the part of a commit that needs no lock.
#ifndef FOLIO_SERVICES_CACHE_DECISION_H_
#define FOLIO_SERVICES_CACHE_DECISION_H_

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "services/cache/coordinator_types.h"
#include "services/policy/kept_scores.h"
#include "services/policy/policy.h"

namespace folio::cache {

// Taken under the lock. The score rows it points at must not be given to anyone else before the
// decision ends; the coordinator sees to that.
struct DecisionInput {
  struct Layer {
    std::vector<const float*> pages;         // float[page_tokens][kv_heads] each
    std::vector<const float*> prompt_pages;  // of the second plane, where the policy reads it
    TokenCount tokens;
    TokenCount scored;  // of these
    policy::Limits limits;
    bool over = false;  // it loses something; else it stays as it is
    PageCount spare;    // with compact
  };

  SequenceId sequence;
  std::shared_ptr<const policy::Policy> policy;
  uint32_t page_tokens = 0;
  uint32_t kv_heads = 0;
  TokenCount logical_length;
  bool compact = false;  // else drop a block
  std::vector<Layer> layers;
  // The sequence's own, with it while it is deciding; empty when nothing is kept.
  std::vector<policy::KeptScores> kept;  // [layer]

  policy::LayerScores Scores(size_t layer) const;
};

using Action = std::variant<CompactAction, DropAction>;

// Depends on nothing else, and brings what is kept up to date. A policy that breaks its contract
// (budget, order, protected tokens) ends the process.
Action Decide(DecisionInput& input);

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_DECISION_H_
