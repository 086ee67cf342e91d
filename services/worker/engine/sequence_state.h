// SequenceState is the part of a running sequence that the manager and the steps decide: its phase,
// what it was given, and how far its steps have come. The step loop can rebuild all of it from the
// manager's record and the client's request.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_STATE_H_
#define FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_STATE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "services/base/ids.h"
#include "services/base/prompt_stops.h"
#include "services/base/session_types.h"
#include "services/model/executor/executor.h"
#include "services/worker/engine/score_plan.h"

namespace folio::worker {

enum class Phase : uint8_t {
  kOpening,     // the manager has been asked for it
  kPrefill,     // parts of the prompt are still to be computed
  kAwaitPlan,   // the prompt exceeds the budget at a stop, and nothing runs until it is compacted
  kDecode,      // every step may have a token of it
  kAwaitReply,  // synchronous mode, from the step that fills a page until the manager has replied
  kParking,     // it has to give its pages back, and its last steps are still to be collected
  kParked,      // it holds no pages, and waits to be computed again from its prompt on
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
  PromptStops stops = {};  // filled in by SequenceState::Begin
};

struct SequenceProgress {
  uint32_t fed = 0;                // logical length after the steps enqueued so far
  uint32_t committed = 0;          // logical length after the steps collected so far
  uint32_t outputs_enqueued = 0;   // tokens asked of the device
  uint32_t outputs_collected = 0;  // tokens that it has returned
  TokenId last_token;              // the newest of them
  // Count of the last step that may touch the sequence's pages; see engine.h.
  uint64_t busy_until = 0;
};

// Some layer's budget is less than `tokens`, the prompt or its part up to a stop. A layer that was
// compacted at an earlier stop is over its budget too, because it held as much as that then.
bool NeedsCompaction(const ResolvedCache& cache, uint32_t tokens);

// The lengths at which the prefill of a prompt waits for a compaction.
PromptStops StopsOf(const ResolvedCache& cache, const ScorePlan& scores, uint32_t prompt_tokens);

// Each change checks the phase that it leaves, so that no part of the step loop can revive a
// sequence that has ended or run one that has no pages. One caller thread.
class SequenceState {
 public:
  Phase phase() const { return phase_; }
  // Pages and plans that still arrive for the sequence are not for it any more.
  bool gives_pages_back() const {
    return phase_ == Phase::kParking || phase_ == Phase::kParked || phase_ == Phase::kClosing;
  }
  const std::optional<SequenceGrant>& grant() const { return grant_; }
  const std::optional<HeldSlot>& held() const { return held_; }
  // Those of the slot, also after it was given back.
  const ScorePlan& scores() const { return scores_; }
  const SequenceProgress& progress() const { return progress_; }
  // The tokens that were sampled so far, also those whose K and V were given back meanwhile.
  const std::vector<TokenId>& sampled() const { return sampled_; }
  // Output number `output`, counted from 0, if it is known. A sequence that is computed again has
  // tokens that it sampled before, and must get the same.
  std::optional<TokenId> Known(uint32_t output) const;

  // The manager has opened the sequence. One that was given up meanwhile stays kClosing, because it
  // still has to be closed.
  void OnGranted(SequenceGrant grant);
  // From kOpening or kParked to kPrefill with an empty table. If another worker has computed
  // `logical_length` tokens, or they were swapped, the sequence continues there, in kDecode if that
  // is the whole prompt. Its pages are in use until step `busy_until` at least.
  void Begin(const HeldSlot& held, uint32_t prompt_tokens, uint32_t logical_length = 0,
             uint64_t busy_until = 0);
  // The tokens that another worker sampled. Before Begin.
  void SetSampled(std::vector<TokenId> sampled) { sampled_ = std::move(sampled); }
  // A step with a segment of the sequence was enqueued; `step` is its count. `fills_page` is true
  // if it is a decode step that fills a page.
  void OnEnqueued(const model::StepSegment& segment, uint64_t step, bool fills_page);
  // Returns true if the sampled token is new.
  bool OnCollected(uint32_t logical_length, std::optional<TokenId> sampled);
  // From kAwaitPlan to kDecode, or to kPrefill before the prompt's end. The moved tokens are in
  // place after step `busy_until`.
  void OnCompacted(uint64_t busy_until);
  // Request number `request_step` reports the page that was filled, and a reply to it or to a later
  // one ends kAwaitReply.
  void OnReported(uint64_t request_step) { reported_step_ = request_step; }
  void OnReply(uint64_t reply_step);
  // To kParking, if the sequence has pages and does not end. They are in use until step
  // `busy_until` at least.
  void Park(uint64_t busy_until = 0);
  // From kParking to kParked: its pages and its slot were given back.
  void OnParked();
  void Close() { phase_ = Phase::kClosing; }

 private:
  Phase phase_ = Phase::kOpening;
  std::optional<SequenceGrant> grant_;
  std::optional<HeldSlot> held_;
  ScorePlan scores_;
  SequenceProgress progress_;
  std::vector<TokenId> sampled_;
  uint32_t prompt_tokens_ = 0;
  uint64_t reported_step_ = 0;  // 0 until the filled page was reported
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_STATE_H_
