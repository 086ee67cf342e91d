// These types are the vocabulary between a worker and the manager: what a session's requests and
// replies say, as plain values. The coordinator and the worker's step loop use them; services/wire
// converts them to and from the protocol's messages, whose comments in kv_manager.proto define the
// meaning of each field.
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
  friend bool operator==(const OpenSequence&, const OpenSequence&) = default;
};
struct ClaimSequence {
  uint64_t request_tag = 0;
  SequenceId sequence;
  std::string resume_token;
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
struct CloseSequence {
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  CloseReason reason = CloseReason::kUnspecified;
  friend bool operator==(const CloseSequence&, const CloseSequence&) = default;
};

// One request of a session. A request that has only its step is a heartbeat.
struct SessionRequest {
  uint64_t step = 0;
  std::vector<OpenSequence> open;
  std::vector<ClaimSequence> claim;
  std::vector<CommitTokens> commit;
  std::vector<AckPlan> ack;
  std::vector<CloseSequence> close;
  friend bool operator==(const SessionRequest&, const SessionRequest&) = default;
};

// The settings of an opened sequence as far as a worker acts on them, and all of them for its
// client.
struct ResolvedCache {
  std::vector<TokenCount> layer_budgets;  // [layer], or one for all; empty if it never evicts
  bool synchronous = false;               // the step after a filled page waits for its plan
  CacheOptionsBytes options;
  friend bool operator==(const ResolvedCache&, const ResolvedCache&) = default;
};

struct OpenResult {
  uint64_t request_tag = 0;
  absl::Status status;  // when not OK, nothing below is set
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  ResolvedCache cache;
  LayerPageLists pages;     // for the whole prompt, and one page ahead
  ScoreNeed scores;         // in the board's first channel
  ScoreNeed prompt_scores;  // in its second, read before anything is evicted
  friend bool operator==(const OpenResult&, const OpenResult&) = default;
};
struct ClaimedLayer {
  PageList pages;
  std::vector<PositionRange> positions;  // of the resident tokens, ascending
  friend bool operator==(const ClaimedLayer&, const ClaimedLayer&) = default;
};
struct ClaimResult {
  uint64_t request_tag = 0;
  absl::Status status;  // when not OK, nothing below is set
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  ResolvedCache cache;
  SamplingRecord sampling;
  std::string output;
  std::string label;
  TokenCount max_new_tokens;
  TokenCount prompt_tokens;  // of `tokens`; the others were sampled
  std::vector<TokenId> tokens;
  TokenCount logical_length;
  std::vector<ClaimedLayer> layers;
  PageCount evicted_pages;
  ScoreNeed scores;
  ScoreNeed prompt_scores;
  std::optional<Plan> plan;  // not acknowledged yet, to be carried out first; always a DropAction
  friend bool operator==(const ClaimResult&, const ClaimResult&) = default;
};
struct PageGrant {
  SequenceId sequence;
  LayerPageLists pages;  // [layer], appended to each layer's table
  friend bool operator==(const PageGrant&, const PageGrant&) = default;
};
struct SequenceError {
  SequenceId sequence;
  absl::Status status;
  friend bool operator==(const SequenceError&, const SequenceError&) = default;
};

// One reply of a session, to the request of the same step.
struct SessionReply {
  uint64_t step = 0;
  std::vector<OpenResult> opened;
  std::vector<ClaimResult> claimed;
  std::vector<PageGrant> granted;
  std::vector<Plan> plans;
  std::vector<SequenceError> failed;
  friend bool operator==(const SessionReply&, const SessionReply&) = default;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_SESSION_TYPES_H_
