// Engine is the step loop: continuous batching of sequences on one executor, while the manager
// decides over pages. Everything happens at step boundaries, in this order:
//
//   take requests and cancellations -> carry out the manager's replies (pages, plans) -> open
//   requests for which there is room -> send what is due (acknowledgements, closings) -> enqueue a
//   step -> collect the step that is `pipeline_depth` behind -> send its commits -> then, and only
//   then, send its tokens to the clients.
//
// The step loop carries out what the Scheduler chooses, and leaves pages and plans to the
// ManagerSession and texts to each sequence's Delivery.
//
// Steps are counted from 1. A sequence is busy until the last step that may read or write its pages
// was collected, and nothing is given back before that. So a step may be enqueued while the one
// before it still runs, without a wait for the device at any table edit.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_ENGINE_H_
#define FOLIO_SERVICES_WORKER_ENGINE_ENGINE_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/base/steady_time.h"
#include "services/model/executor/executor.h"
#include "services/model/tokenizer/tokenizer.h"
#include "services/worker/engine/engine_options.h"
#include "services/worker/engine/manager_session.h"
#include "services/worker/engine/places.h"
#include "services/worker/engine/request_queue.h"
#include "services/worker/engine/scheduler.h"
#include "services/worker/engine/step_gauge.h"
#include "services/worker/engine/waiting_line.h"
#include "services/worker/link/manager_link.h"

namespace folio::worker {

// The status with which requests end when the worker does.
absl::Status EngineShutdown();

class Engine {
 public:
  // All pointers are borrowed. The executor is fresh, and its tables are this engine's. The gauge
  // is told of each turn and step.
  Engine(const EngineOptions& options, model::Executor* executor, ManagerLink* link,
         RequestQueue* queue, const model::Tokenizer* tokenizer, StepGauge* gauge);

  // Serves until the link fails (returns why; requests end with UNAVAILABLE) or Drain is done (OK).
  // Call it once; the caller's thread is the executor's.
  absl::Status Run();

  // Refuses new requests and lets the accepted ones finish until `deadline`, then ends them with
  // UNAVAILABLE. Thread-safe; a second call may bring the deadline forward.
  void Drain(SteadyTime deadline);

  EngineCounters counters() const;  // thread-safe

 private:
  struct InFlight {
    model::StepTicket ticket;
    SteadyTime enqueued;
    StepSize size;
    std::vector<StepResult> results;
  };

  // False: the loop ends.
  bool RunBoundary();
  void EndCancelled();
  // Has sequences whose clients do not read give their pages and places to requests that wait here,
  // and to parked sequences. The manager asks for those pages on behalf of other workers.
  void ParkPaused();
  void OpenWaiting();
  // For requests that may run beside those that do.
  Places FreePlaces() const;
  void WaitForManager();
  void Enqueue(const Batch& batch);
  void CollectOldest();
  // Hands the step's tokens to their sequences, and drops the results of those that have ended. A
  // sequence whose output failed ends here, and its neighbours continue.
  void TakeOutputs(const model::StepOutput& output, std::vector<StepResult>* results);
  absl::Status Stop(absl::Status why);
  void PublishCounters();
  std::optional<SteadyTime> OldestWaiting() const;
  std::optional<SteadyTime> drain_deadline() const;

  const EngineOptions options_;
  model::Executor* const executor_;
  ManagerLink* const link_;
  RequestQueue* const queue_;
  StepGauge* const gauge_;
  Scheduler scheduler_;
  StepCounts steps_;
  ManagerSession session_;

  WaitingLine waiting_;
  std::deque<InFlight> in_flight_;
  SteadyTime last_collected_;
  EngineCounters totals_;

  mutable absl::Mutex mutex_;
  std::optional<SteadyTime> drain_deadline_ ABSL_GUARDED_BY(mutex_);
  EngineCounters counters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_ENGINE_H_
