// Serving attaches a worker to its manager, serves, and attaches again when the manager is lost.
#ifndef FOLIO_SERVICES_WORKER_SERVING_H_
#define FOLIO_SERVICES_WORKER_SERVING_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/base/steady_time.h"
#include "services/base/steady_wait.h"
#include "services/worker/device/loaded_model.h"
#include "services/worker/engine/engine.h"
#include "services/worker/engine/request_queue.h"
#include "services/worker/engine/step_gauge.h"
#include "services/worker/pool/pool_attachment.h"
#include "services/worker/step_watchdog.h"

namespace folio::worker {

struct ServingOptions {
  std::string manager;  // gRPC address
  std::string pool;     // of the manager, by its name; empty for its only one
  std::string worker_name;
  absl::Duration attach_timeout;
  TokenBudget token_budget;
  uint32_t max_batch = 64;
  absl::Duration queue_timeout = absl::InfiniteDuration();
  StepTimeout step_timeout;  // after which a hanging step ends the process
  uint32_t max_rows() const { return token_budget.alone + max_batch; }
};

// It has two threads, one that runs the step loop and one that watches it. Thread-safe.
class Serving {
 public:
  // All pointers are borrowed. `group` is set in the leader of several ranks.
  Serving(const ServingOptions& options, const LoadedModel* model, RequestQueue* queue,
          const RankGroup* group = nullptr);
  // Ends running requests at once.
  ~Serving();

  // Attaches, waiting for the manager up to the timeout or until `stop` says so, and starts to
  // serve. Once.
  absl::Status Start(const std::function<bool()>& stop);

  // True while requests are taken and the step loop makes progress.
  bool serving() const { return serving_ && watchdog_.progressing(); }
  const StepGauge& gauge() const { return gauge_; }
  const StepWatchdog& watchdog() const { return watchdog_; }
  // Lets running requests finish until `deadline`. May be called again to shorten it.
  void Drain(SteadyTime deadline);
  // Waits for the end of serving, or returns nothing after `timeout`. OK after Drain. Any other
  // status is an error after which the process must be restarted.
  std::optional<absl::Status> Wait(absl::Duration timeout);

  // Since the process started, over all managers that were served.
  EngineCounters counters() const;

 private:
  absl::Status Attach(const std::function<bool()>& stop);
  void Run();
  // Serves until the link ends or the drain is done.
  absl::Status Serve();
  bool draining() const;

  const ServingOptions options_;
  const LoadedModel* const model_;
  RequestQueue* const queue_;
  const RankGroup* const group_;  // null for a worker of one rank
  const std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<PoolAttachment> attachment_;  // the thread's, once it runs, as is the next
  HeldPool held_;                               // while there is no manager
  std::atomic<bool> serving_ = false;
  StepGauge gauge_;
  StepWatchdog watchdog_;

  mutable absl::Mutex mutex_;
  Engine* engine_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the running one
  EngineCounters ended_engines_ ABSL_GUARDED_BY(mutex_);
  std::optional<SteadyTime> drain_deadline_ ABSL_GUARDED_BY(mutex_);
  absl::Status result_ ABSL_GUARDED_BY(mutex_);

  SteadyNotification ended_;
  std::thread thread_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_SERVING_H_
