// StreamingLLM (arXiv 2309.17453): the first tokens (attention sinks) and the most recent ones
// stay. Reads no scores.
#ifndef FOLIO_SERVICES_POLICY_STREAMING_LLM_H_
#define FOLIO_SERVICES_POLICY_STREAMING_LLM_H_

#include "services/policy/policy.h"

namespace folio::policy {

class StreamingLlm final : public Policy {
 public:
  absl::string_view name() const override { return "streaming_llm"; }
  bool evicts() const override { return true; }
  std::vector<SlotIndex> SelectPrefill(const LayerScores& scores,
                                       const Limits& limits) const override;
  BlockIndex SelectDecode(const LayerScores& scores, const Limits& limits) const override;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_STREAMING_LLM_H_
