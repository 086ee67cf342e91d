// StreamingLlm is the policy of StreamingLLM (arXiv 2309.17453): the first tokens, which serve as
// attention sinks, and the most recent ones stay. It reads no scores.
#ifndef FOLIO_SERVICES_POLICY_STREAMING_LLM_H_
#define FOLIO_SERVICES_POLICY_STREAMING_LLM_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "services/policy/policy.h"

namespace folio::policy {

class StreamingLlm final : public Policy {
 public:
  StreamingLlm() : Policy({.name = "streaming_llm", .ranks = false}) {}
  std::vector<TokenSlot> SelectPrefill(LayerGroup layers, const Limits& limits) const override;
  BlockIndex SelectDecode(LayerGroup layers, const Limits& limits,
                          absl::Span<KeptScores> kept) const override;
};

struct StreamingLlmSpec {
  absl::Status Check() const { return absl::OkStatus(); }
  std::shared_ptr<const Policy> Make() const { return std::make_shared<const StreamingLlm>(); }
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_STREAMING_LLM_H_
