// What the step loop knows of one sequence. Everything here can be rebuilt from the manager's
// record and the client's request; it belongs to the step loop's thread.
#ifndef FOLIO_SERVICES_WORKER_SEQUENCE_H_
#define FOLIO_SERVICES_WORKER_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "folio/v1/inference.pb.h"
#include "services/common/geometry.h"
#include "services/common/ids.h"
#include "services/model/executor.h"
#include "services/worker/request_queue.h"
#include "services/worker/score_plan.h"
#include "services/worker/text_stream.h"

namespace folio::worker {

enum class Phase {
  kOpening,    // Open was sent
  kPrefill,    // parts of the prompt are still to be fed
  kAwaitPlan,  // the prompt is over the budget: nothing runs until it is compacted
  kDecode,
  kClosing,  // the client has its answer; pages go back when no step can touch them
};

// Pages and tokens of one sequence, for CacheStats and to know which pages fill. Pages are over all
// layers.
struct CacheLedger {
  std::vector<uint32_t> resident;  // [layer] tokens after the steps enqueued so far
  uint32_t peak_tokens = 0;        // of the layer that held most
  uint32_t evicted_pages = 0;
  uint32_t pages = 0;
  uint32_t peak_pages = 0;
  uint32_t plans = 0;

  void AddPages(uint32_t count);
  void AddTokens(uint32_t count);
  uint32_t most() const;   // tokens of the layer that holds most
  uint32_t least() const;  // and of the one that holds least
};

struct Sequence {
  Sequence(uint64_t tag, std::shared_ptr<Submission> submission, const model::Tokenizer* tokenizer);

  const SequenceRequest& request() const { return submission->request; }
  uint32_t prompt_tokens() const { return static_cast<uint32_t>(request().prompt.size()); }
  bool scoring() const { return !request().targets.empty(); }
  bool evicts() const { return cache.budget_tokens() > 0; }
  // Some layer's budget is less than the prompt.
  bool needs_compaction() const { return evicts() && prompt_tokens() > least_budget(); }
  uint32_t least_budget() const;
  // With the next token, a page of some layer is full.
  bool fills_a_page(uint32_t page_tokens) const;
  // Queries that score the prompt when it ends; they must all lie in its last chunk.
  model::WindowScore window() const;
  bool synchronous() const {
    return evicts() && cache.eviction_mode() == folio::v1::EVICTION_MODE_SYNCHRONOUS;
  }

  const uint64_t tag;
  const std::shared_ptr<Submission> submission;
  Phase phase = Phase::kOpening;

  // The token that output number `at` must be: a scored one, or one that the client of a resumed
  // sequence had from the worker before, though the manager had not.
  std::optional<TokenId> target(uint32_t at) const;

  // Set by OpenResult or ClaimResult.
  bool opened = false;
  SequenceId id;
  LeaseEpoch lease_epoch;
  folio::v1::CacheOptions cache;  // with every default filled in
  ScorePlan scores;
  bool has_slot = false;  // false when the request was given up before
  model::SlotId slot;

  uint32_t fed = 0;               // tokens in the steps enqueued: the logical length after them
  uint32_t committed = 0;         // the same, of the steps collected
  uint32_t outputs_enqueued = 0;  // tokens asked of the device
  uint32_t outputs = 0;           // tokens collected
  uint32_t emitted = 0;           // tokens that a client has, or is sent
  TokenId last_token;             // the newest collected

  // Synchronous mode: a newest page is full and the manager has not said what goes. The step of
  // the request that told it, 0 until it is sent.
  bool awaits_reply = false;
  uint64_t awaited_step = 0;

  // Count of the last step that may touch the pages; see Engine.
  uint64_t busy_until = 0;
  folio::v1::CloseReason close_reason = folio::v1::CLOSE_REASON_UNSPECIFIED;

  TextStream text;
  folio::v1::TokenChunk held;  // tokens whose text is not whole yet
  CacheLedger ledger;
  absl::Time admitted, first_token, newest_token;
};

// What the manager is asked for a sequence, and the events its client sees. Pure translation.
folio::v1::OpenSequence OpenOf(const Sequence& sequence);
folio::v1::ClaimSequence ClaimOf(const Sequence& sequence);
folio::v1::GenerateResponse StartedEvent(const Sequence& sequence);
folio::v1::GenerateResponse ProgressEvent(const Sequence& sequence, uint32_t done);
folio::v1::GenerateResponse FinishedEvent(const Sequence& sequence, const CacheGeometry& geometry,
                                          folio::v1::FinishReason reason, std::string stop);
void AddLogprob(const model::SegmentOutput& output, const model::Tokenizer& tokenizer,
                folio::v1::TokenChunk* chunk);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_SEQUENCE_H_
