// The step loop: continuous batching of sequences on one executor, with the manager deciding over
// pages. Everything happens at step boundaries, in this order:
//
//   take requests and cancellations -> process the manager's replies (pages, plans) -> open what
//   fits beside the running ones -> send what is due (acknowledgements, closings) -> enqueue a
//   step -> collect the step that is `pipeline_depth` behind -> send its commits -> then, and only
//   then, give its tokens to the clients.
//
// Steps are counted from 1; `busy_until` of a sequence is the count of the last step that may read
// or write its pages, and nothing is given back before that step was collected.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_H_
#define FOLIO_SERVICES_WORKER_ENGINE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/model/executor.h"
#include "services/model/tokenizer.h"
#include "services/worker/batcher.h"
#include "services/worker/engine_options.h"
#include "services/worker/manager_link.h"
#include "services/worker/request_queue.h"
#include "services/worker/sequence.h"

namespace folio::worker {

class Engine {
 public:
  // All borrowed; the executor is fresh, and its slots are this engine's.
  Engine(const EngineOptions& options, model::Executor* executor, ManagerLink* link,
         RequestQueue* queue, const model::Tokenizer* tokenizer);

  // Serves until the link fails (returns why; requests end with UNAVAILABLE) or Drain is done (OK).
  // Once; the caller's thread is the executor's.
  absl::Status Run();

  // Refuses new requests and lets the accepted ones finish until `deadline`, then ends them with
  // UNAVAILABLE. Thread-safe; a second call may bring the deadline forward.
  void Drain(absl::Time deadline);

  EngineCounters counters() const;  // thread-safe

 private:
  struct Entry {
    Sequence* sequence;
    bool output;
    uint32_t tokens;
    uint32_t logical_length;      // after the step
    std::vector<PageRef> filled;  // pages that became full, in the order of their layers
  };
  struct InFlight {
    model::StepTicket ticket;
    std::vector<Entry> entries;
  };
  struct DueAck {
    uint64_t busy_until;
    folio::v1::AckPlan ack;
  };
  // What a step leads to for one client.
  struct Delivery {
    Sequence* sequence;
    std::vector<folio::v1::GenerateResponse> events;
    bool done = false;
  };

  // Step boundary (engine.cc).
  bool RunBoundary();
  void TakeSubmissions();
  void EndCancelled();
  void OpenQueued();
  void SendDue();
  void WaitForManager();
  bool DrainExpired() const;
  absl::Status Stop(absl::Status why);
  // The client gets `status` now; the pages go back when no step can touch them.
  void End(Sequence* sequence, folio::v1::CloseReason reason, const absl::Status& status);
  void PublishCounters();

  // Steps (engine_step.cc).
  void Enqueue(Batch batch);
  void CollectOldest();
  void TakeOutput(const model::SegmentOutput& output, Delivery* delivery);
  void EmitChunk(Sequence* sequence, Delivery* delivery);
  void Commit(const std::vector<Entry>& entries, const std::vector<Delivery>& deliveries);
  void Deliver(std::vector<Delivery> deliveries);

  // Replies (engine_reply.cc).
  void ProcessReplies();
  void Process(const folio::v1::SessionReply& reply);
  void Opened(const folio::v1::OpenResult& result);
  // Gives the sequence a slot if it can run here; else it ends.
  bool Admit(Sequence* sequence, const folio::v1::ScoreNeed& first,
             const folio::v1::ScoreNeed& second);
  void Granted(const folio::v1::PageGrant& grant);
  void Carry(const folio::v1::EvictionPlan& plan);
  bool Fits(const Sequence& sequence, const folio::v1::CompactPlan& plan) const;
  absl::Status CarryCompact(Sequence* sequence, const folio::v1::CompactPlan& plan);
  absl::Status CarryDrop(Sequence* sequence, const folio::v1::DropPagePlan& plan);
  bool Extend(Sequence* sequence,
              const google::protobuf::RepeatedPtrField<folio::v1::LayerPages>& layers);
  Sequence* Find(uint64_t sequence_id);
  // The one that an answer is for, if the manager said yes; else it ends. Null: nothing to do.
  template <typename Result>
  Sequence* Answered(const Result& result);

  // Sequences that another worker left (engine_resume.cc).
  void Claimed(const folio::v1::ClaimResult& result);
  absl::Status Restore(Sequence* sequence, const folio::v1::ClaimResult& record);
  // Tokens of the record, as if they were sampled now.
  void Replay(Sequence* sequence, const std::vector<TokenId>& sampled);

  const EngineOptions options_;
  model::Executor* const executor_;
  ManagerLink* const link_;
  RequestQueue* const queue_;
  const model::Tokenizer* const tokenizer_;
  const int depth_;

  std::deque<std::shared_ptr<Submission>> waiting_;   // beyond max_batch
  std::vector<std::unique_ptr<Sequence>> sequences_;  // oldest first
  std::deque<InFlight> in_flight_;
  std::vector<DueAck> due_acks_;
  uint64_t enqueued_ = 0;  // steps
  uint64_t collected_ = 0;
  uint64_t next_tag_ = 1;
  EngineCounters totals_;

  mutable absl::Mutex mutex_;
  std::optional<absl::Time> drain_deadline_ ABSL_GUARDED_BY(mutex_);
  EngineCounters counters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_H_
