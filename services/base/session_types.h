// These types are the vocabulary between a worker and the manager: what a session's requests say,
// and in session_replies.h its replies, as plain values. The coordinator and the worker's step loop
// use them; services/wire converts them to and from the protocol's messages, whose comments in
// kv_manager.proto define the meaning of each field.
#ifndef FOLIO_SERVICES_BASE_SESSION_TYPES_H_
#define FOLIO_SERVICES_BASE_SESSION_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/base/ids.h"
#include "services/base/score_kind.h"
#include "services/base/sequence_types.h"
#include "services/base/session_replies.h"
#include "services/base/step_progress.h"
#include "services/base/urgency.h"

namespace folio {

enum class CloseReason : uint8_t {  // numbers as in the protocol
  kUnspecified = 0,
  kFinished = 1,
  kCancelled = 2,
  kDeadline = 3,
  kError = 4,
};

struct OpenSequence {
  uint64_t request_tag = 0;
  std::vector<TokenId> prompt;
  TokenCount max_new_tokens;
  CacheOptionsBytes cache;
  SamplingParameters sampling;
  std::string label;
  std::string resume_token;
  std::string output;  // OutputOptions of the protocol, serialised; the manager only keeps it
  bool waits_for_room = false;
  TokenCount prefill_ahead;  // prompt tokens that need pages at a time; 0 for all of them
  bool may_be_parked = false;
  bool compacts_in_prefill = false;
  bool may_be_swapped = false;  // the worker copies pages to swap memory and back
  Urgency urgency;
  std::string tenant;  // see fair_turns.h
  friend bool operator==(const OpenSequence&, const OpenSequence&) = default;
};
struct ClaimSequence {
  uint64_t request_tag = 0;
  SequenceId sequence;
  std::string resume_token;
  TokenCount prefill_ahead;  // as in OpenSequence
  bool may_be_parked = false;
  bool compacts_in_prefill = false;
  bool may_be_swapped = false;
  std::optional<std::string> tenant = {};  // the one that opened it; any if unset
  friend bool operator==(const ClaimSequence&, const ClaimSequence&) = default;
};
struct CommitTokens {
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  TokenCount logical_length;     // after the step
  std::vector<TokenId> sampled;  // appended to the record
  std::vector<PageRef> filled;   // decode: pages that became full, in the order of their layers
  friend bool operator==(const CommitTokens&, const CommitTokens&) = default;
};
struct AckPlan {
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  PlanEpoch plan_epoch;
  friend bool operator==(const AckPlan&, const AckPlan&) = default;
};
// Gives all pages of a sequence back, whose record stays. No step can touch the pages any more.
struct ParkSequence {
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  bool swapped = false;  // its pages were copied to the slots that it was offered
  friend bool operator==(const ParkSequence&, const ParkSequence&) = default;
};
// Asks for pages again, to compute a parked sequence from its prompt on, or to continue it if it
// was swapped.
struct UnparkSequence {
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  friend bool operator==(const UnparkSequence&, const UnparkSequence&) = default;
};
struct CloseSequence {
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  CloseReason reason = CloseReason::kUnspecified;
  friend bool operator==(const CloseSequence&, const CloseSequence&) = default;
};

// One request of a session. A request that has only its step and progress is a heartbeat.
struct SessionRequest {
  uint64_t step = 0;
  std::vector<OpenSequence> open;
  std::vector<ClaimSequence> claim;
  std::vector<CommitTokens> commit;
  std::vector<AckPlan> ack;
  std::vector<CloseSequence> close;
  std::vector<ParkSequence> park;
  std::vector<UnparkSequence> unpark;
  std::optional<StepProgress> progress;  // workers before version 0.2 do not tell
  friend bool operator==(const SessionRequest&, const SessionRequest&) = default;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_SESSION_TYPES_H_
