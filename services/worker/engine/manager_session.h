// ManagerSession is the step loop's side of the session with the manager. It opens and claims
// sequences, carries the manager's replies out as edits of their block tables, and sends commits,
// acknowledgements and closings.
//
// The manager may give a page to another sequence as soon as it hears that this one has left it. So
// a plan is acknowledged, and a sequence parked or closed, only when no step in flight can touch
// the pages.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_MANAGER_SESSION_H_
#define FOLIO_SERVICES_WORKER_ENGINE_MANAGER_SESSION_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/base/session_types.h"
#include "services/base/steady_time.h"
#include "services/model/executor/executor.h"
#include "services/model/tokenizer/tokenizer.h"
#include "services/worker/engine/engine_options.h"
#include "services/worker/engine/host_swap.h"
#include "services/worker/engine/parking_lot.h"
#include "services/worker/engine/sequence.h"
#include "services/worker/engine/waiting_line.h"
#include "services/worker/link/manager_link.h"

namespace folio::worker {

// Steps are counted from 1.
struct StepCounts {
  uint64_t enqueued = 0;
  uint64_t collected = 0;
};

// StepResult is the part of a step that one sequence had.
struct StepResult {
  Sequence* sequence = nullptr;
  bool output = false;             // a token is sampled
  std::optional<TokenId> sampled;  // the token, once the step is collected
  uint32_t logical_length = 0;     // after the step
  std::vector<PageRef> filled;     // pages that became full, in the order of their layers
  bool awaits_reply = false;       // the sequence stands still until the manager has replied
};

// One caller thread, the step loop's. The session owns the sequences that run.
class ManagerSession {
 public:
  // All pointers are borrowed; `steps` is the step loop's.
  ManagerSession(const EngineOptions& options, model::Executor* executor, ManagerLink* link,
                 const model::Tokenizer* tokenizer, const StepCounts* steps);

  const SequenceList& sequences() const { return sequences_; }

  // Asks the manager for a sequence for each request.
  void Open(std::vector<std::shared_ptr<Submission>> submissions);
  // Carries out the replies that have come.
  void ApplyReplies();
  // Waits for one reply until `deadline` or until the link is woken, and carries it out.
  void AwaitReply(SteadyTime deadline);
  // Acknowledges plans, and closes ended sequences whose last step was collected. With
  // `all_committed`, when every step that was collected is committed, it also parks sequences.
  // Those that it closes no longer exist afterwards. Returns true if pages were given back.
  bool SendDue(bool all_committed);
  ParkingLot& parking() { return parking_; }
  // Requests for which the pool had no room, since the last call. Their sequences no longer exist.
  std::vector<Refused> TakeRefused() { return std::exchange(refused_, {}); }
  // The manager has yet to answer for some sequence that it was asked for.
  bool opening() const {
    return std::any_of(sequences_.begin(), sequences_.end(), [](const auto& sequence) {
      return sequence->state().phase() == Phase::kOpening;
    });
  }
  // Tells the manager what a step did, and takes the filled pages out of the results. Call
  // Delivery::Send only after this.
  void Commit(std::vector<StepResult>* results);
  // Ends every sequence, with the link broken or the worker about to end: nothing is sent.
  void Abandon(const absl::Status& why);

 private:
  struct DueAck {
    uint64_t busy_until;
    AckPlan ack;
    std::shared_ptr<SequenceTrace> trace;  // of the request, see there
  };

  void Apply(SessionReply reply);
  void OnOpenResult(OpenResult result);
  // The pool is full for now. A result of an open or a claim.
  template <typename Result>
  void OnFull(const Result& result);
  void OnUnparked(UnparkResult result);
  // prefill_ahead_tokens: a chunk for each step under way, and one while the answer travels.
  TokenCount prefill_ahead() const;
  SequenceList::iterator FindTag(uint64_t tag);
  void OnClaimResult(ClaimResult result);
  void OnGrant(const PageGrant& grant);
  // The sequence that a result is for, if the manager gave it and its client still waits.
  template <typename Result>
  Sequence* TakeGrant(Result* result);
  // The scores that this worker is to write, if it can write them for this prompt.
  template <typename Result>
  absl::StatusOr<ScorePlan> ScoresFor(const Sequence& sequence, const Result& result) const;
  // Both take a slot of the tables and begin the sequence there, or fail and leave it as it was.
  absl::Status Begin(Sequence* sequence, const OpenResult& result);
  absl::Status Resume(Sequence* sequence, const ClaimResult& record,
                      const std::vector<TokenId>& sampled);
  // Takes a slot again for a sequence that was swapped, and has its pages copied back.
  absl::Status GoOn(Sequence* sequence, UnparkResult result);
  // Makes a fresh slot's tables those of the record, and begins the sequence there.
  absl::Status Restore(Sequence* sequence, const ScorePlan& scores, const ClaimResult& record);
  // Takes a slot for a sequence whose tables are these pages.
  absl::Status Place(Sequence* sequence, const ScorePlan& scores, const LayerPageLists& pages);

  // Adds the sequences that are to be parked now, and gives their slots back. Those whose pages are
  // to be copied first are parked when that is done.
  void AddParks(SessionRequest* request);
  // For its trace: the manager may answer the commit with a plan.
  static void NoteCommit(const Sequence& sequence, const CommitTokens& commit);
  void ApplyPlan(const Plan& plan);
  void ApplyCompaction(Sequence* sequence, const CompactAction& action);
  void ApplyDrop(Sequence* sequence, const DropAction& action);

  static absl::Status Start(Sequence* sequence);
  Sequence* Find(SequenceId id) const;
  model::SequenceTables& tables() const { return executor_->tables(); }
  const model::BlockTables& TableOf(const Sequence& sequence) const {
    return tables().at(sequence.state().held()->slot);
  }

  const EngineOptions options_;
  model::Executor* const executor_;
  ManagerLink* const link_;
  const model::Tokenizer* const tokenizer_;
  const StepCounts* const steps_;
  SequenceList sequences_;
  ParkingLot parking_;
  HostSwap swap_;
  std::vector<DueAck> due_acks_;
  std::vector<Refused> refused_;
  uint64_t next_tag_ = 1;
  bool clears_pages_ = false;  // see SessionReply
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_MANAGER_SESSION_H_
