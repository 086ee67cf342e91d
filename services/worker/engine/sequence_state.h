// SequenceState is the part of a running sequence that the manager and the steps decide: its phase,
// what it was given, and how far its steps have come. The step loop can rebuild all of it from the
// manager's record and the client's request.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_STATE_H_
#define FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_STATE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/model/executor/executor.h"
#include "services/worker/engine/score_plan.h"

namespace folio::worker {

enum class Phase : uint8_t {
  kOpening,     // the manager has been asked for it
  kPrefill,     // parts of the prompt are still to be computed
  kAwaitPlan,   // the prompt exceeds the budget, and nothing runs until it is compacted
  kDecode,      // every step may have a token of it
  kAwaitReply,  // synchronous mode, from the step that fills a page until the manager has replied
  kClosing,     // the client has its answer; pages go back when no step can touch them
};

// SequenceGrant is what the manager gave a sequence that it opened.
struct SequenceGrant {
  SequenceId id;
  LeaseEpoch lease_epoch;
  ResolvedCache cache;
};

// HeldSlot is the place of a sequence in the worker's block tables.
struct HeldSlot {
  model::SequenceSlot slot;
  ScorePlan scores;
};

struct StepProgress {
  uint32_t fed = 0;                // logical length after the steps enqueued so far
  uint32_t committed = 0;          // logical length after the steps collected so far
  uint32_t outputs_enqueued = 0;   // tokens asked of the device
  uint32_t outputs_collected = 0;  // tokens that it has returned
  TokenId last_token;              // the newest of them
  // Count of the last step that may touch the sequence's pages; see engine.h.
  uint64_t busy_until = 0;
};

// Some layer's budget is less than the prompt.
bool NeedsCompaction(const ResolvedCache& cache, uint32_t prompt_tokens);

// Each change checks the phase that it leaves, so that no part of the step loop can revive a
// sequence that has ended or run one that has no pages. One caller thread.
class SequenceState {
 public:
  Phase phase() const { return phase_; }
  const std::optional<SequenceGrant>& grant() const { return grant_; }
  const std::optional<HeldSlot>& held() const { return held_; }
  const StepProgress& progress() const { return progress_; }

  // The manager has opened the sequence. One that was given up meanwhile stays kClosing, because it
  // still has to be closed.
  void OnGranted(SequenceGrant grant);
  // From kOpening to kPrefill with an empty table. If another worker has computed `logical_length`
  // tokens and sampled those after the prompt, the sequence continues there, in kDecode if the
  // whole prompt was computed.
  void Begin(const HeldSlot& held, uint32_t prompt_tokens, uint32_t logical_length = 0,
             const std::vector<TokenId>& sampled = {});
  // A step with a segment of the sequence was enqueued; `step` is its count. `fills_page` is true
  // if it is a decode step that fills a page.
  void OnEnqueued(const model::StepSegment& segment, uint64_t step, bool fills_page);
  void OnCollected(uint32_t logical_length, std::optional<TokenId> sampled);
  // From kAwaitPlan to kDecode; the moved tokens are in place after step `busy_until`.
  void OnCompacted(uint64_t busy_until);
  // Request number `request_step` reports the page that was filled, and a reply to it or to a later
  // one ends kAwaitReply.
  void OnReported(uint64_t request_step) { reported_step_ = request_step; }
  void OnReply(uint64_t reply_step);
  void Close() { phase_ = Phase::kClosing; }

 private:
  Phase phase_ = Phase::kOpening;
  std::optional<SequenceGrant> grant_;
  std::optional<HeldSlot> held_;
  StepProgress progress_;
  uint32_t prompt_tokens_ = 0;
  uint64_t reported_step_ = 0;  // 0 until the filled page was reported
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_STATE_H_
