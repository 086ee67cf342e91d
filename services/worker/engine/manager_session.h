// ManagerSession is the step loop's side of the session with the manager. It opens and claims
// sequences, carries the manager's replies out as edits of their block tables, and sends commits,
// acknowledgements and closings.
//
// The manager may give a page to another sequence as soon as it hears that this one has left it. So
// a plan is acknowledged, and a sequence closed, only when no step in flight can touch the pages.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_MANAGER_SESSION_H_
#define FOLIO_SERVICES_WORKER_ENGINE_MANAGER_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/base/session_types.h"
#include "services/model/executor/executor.h"
#include "services/model/tokenizer/tokenizer.h"
#include "services/worker/engine/engine_options.h"
#include "services/worker/engine/sequence.h"
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
  void AwaitReply(absl::Time deadline);
  // Acknowledges plans and closes ended sequences whose last step was collected. Sequences that it
  // closes no longer exist afterwards.
  void SendDue();
  // Tells the manager what a step did, and takes the filled pages out of the results. Call
  // Delivery::Send only after this.
  void Commit(std::vector<StepResult>* results);
  // Ends every sequence, with the link broken or the worker about to end: nothing is sent.
  void Abandon(const absl::Status& why);

 private:
  struct DueAck {
    uint64_t busy_until;
    AckPlan ack;
  };

  void Apply(SessionReply reply);
  void OnOpenResult(OpenResult result);
  void OnClaimResult(ClaimResult result);
  void OnGrant(const PageGrant& grant);
  // The sequence that a result is for, if the manager gave it and its client still waits.
  template <typename Result>
  Sequence* TakeGrant(Result* result);
  // The scores that this worker is to write, if it can write them for this prompt.
  absl::StatusOr<ScorePlan> ScoresFor(const Sequence& sequence, const ScoreNeed& first,
                                      const ScoreNeed& second) const;
  // Both take a slot of the tables and begin the sequence there, or fail and leave it as it was.
  absl::Status Begin(Sequence* sequence, const OpenResult& result);
  absl::Status Resume(Sequence* sequence, const ClaimResult& record,
                      const std::vector<TokenId>& sampled);

  void ApplyPlan(Plan plan);
  void ApplyCompaction(Sequence* sequence, CompactAction action);
  void ApplyDrop(Sequence* sequence, const DropAction& action);

  void Start(Sequence* sequence) const;
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
  std::vector<DueAck> due_acks_;
  uint64_t next_tag_ = 1;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_MANAGER_SESSION_H_
