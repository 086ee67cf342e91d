// These types are the replies of a session, which the manager sends to a worker, as plain values.
// They belong to session_types.h, which has the requests.
#ifndef FOLIO_SERVICES_BASE_SESSION_REPLIES_H_
#define FOLIO_SERVICES_BASE_SESSION_REPLIES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/base/ids.h"
#include "services/base/layer_range.h"
#include "services/base/score_kind.h"
#include "services/base/sequence_types.h"

namespace folio {

// The settings of an opened sequence as far as a worker acts on them, and all of them for its
// client.
struct ResolvedCache {
  std::vector<TokenCount> layer_budgets;  // [layer], or one for all; empty if it never evicts
  bool synchronous = false;               // the step after a filled page waits for its plan
  TokenCount compaction_stride;           // of a prompt that is compacted in prefill; else 0
  CacheOptionsBytes options;
  friend bool operator==(const ResolvedCache&, const ResolvedCache&) = default;
};

struct OpenResult {
  uint64_t request_tag = 0;
  absl::Status status;         // when not OK, only the next field is set
  bool may_fit_later = false;  // the pool is full, and would have room if others ended
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  ResolvedCache cache;
  LayerPageLists pages;     // for the prompt, or for its first prefill_ahead tokens
  ScoreNeed scores;         // in the board's first channel
  ScoreNeed prompt_scores;  // in its second, read when the prompt is compacted at its end
  LayerRange scored_layers = kAllLayers;  // the only ones whose scores are read
  friend bool operator==(const OpenResult&, const OpenResult&) = default;
};
struct ClaimedLayer {
  PageList pages;
  std::vector<PositionRange> positions;  // of the resident tokens, ascending
  // If the sequence was swapped, these have the contents of the first pages, in table order.
  std::vector<SwapSlot> slots = {};
  friend bool operator==(const ClaimedLayer&, const ClaimedLayer&) = default;
};
struct ClaimResult {
  uint64_t request_tag = 0;
  absl::Status status;         // when not OK, only the next field is set
  bool may_fit_later = false;  // the sequence was parked, and the pool is full for now
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  ResolvedCache cache;
  SamplingRecord sampling;
  std::string output;
  std::string label;
  std::string tenant;
  int32_t priority = 0;  // see urgency.h
  TokenCount max_new_tokens;
  TokenCount prompt_tokens;  // of `tokens`; the others were sampled
  std::vector<TokenId> tokens;
  TokenCount logical_length;
  std::vector<ClaimedLayer> layers;
  PageCount evicted_pages;
  ScoreNeed scores;
  ScoreNeed prompt_scores;
  LayerRange scored_layers = kAllLayers;
  std::optional<Plan> plan;  // not acknowledged yet, to be carried out first; always a DropAction
  friend bool operator==(const ClaimResult&, const ClaimResult&) = default;
};
struct PageGrant {
  SequenceId sequence;
  LayerPageLists pages;  // [layer], appended to each layer's table
  friend bool operator==(const PageGrant&, const PageGrant&) = default;
};
struct UnparkResult {
  SequenceId sequence;
  absl::Status status;         // when not OK, only the next field is set
  bool may_fit_later = false;  // the pool is full for now
  LayerPageLists pages;        // as in OpenResult; empty if the sequence was swapped
  // If it was: its tables, and how far it had come. A plan that waits is among the reply's plans.
  std::vector<ClaimedLayer> swapped = {};
  TokenCount logical_length = {};
  friend bool operator==(const UnparkResult&, const UnparkResult&) = default;
};
// Slots for the pages of a sequence that is to be parked, in the order of layers and tables. There
// may be more slots than pages with tokens.
struct SwapOffer {
  SequenceId sequence;
  std::vector<SwapSlot> slots;
  friend bool operator==(const SwapOffer&, const SwapOffer&) = default;
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
  std::vector<UnparkResult> unparked;
  // The pool has run dry: the worker stops the steps of these and then parks them.
  std::vector<SequenceId> park;
  std::vector<SwapOffer> swap;  // for some of these
  // The worker clears new pages before it writes them, because another tenant may have used them.
  bool clear_pages = false;
  friend bool operator==(const SessionReply&, const SessionReply&) = default;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_SESSION_REPLIES_H_
