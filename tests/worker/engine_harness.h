// EngineHarness runs the step loop with a tiny model on the plain CPU executor, a coordinator and
// the manager's translator. Everything is real except the stream and the model's size.
#ifndef FOLIO_TESTS_WORKER_ENGINE_HARNESS_H_
#define FOLIO_TESTS_WORKER_ENGINE_HARNESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "services/cache/coordinator.h"
#include "services/worker/device/loaded_model.h"
#include "services/worker/engine/engine.h"
#include "services/worker/engine/request_queue.h"
#include "services/worker/rpc/request_check.h"
#include "tests/testing/in_process_link.h"

namespace folio::worker::testing {

inline constexpr uint32_t kPageTokens = 16;

// One for the whole program: loaded once.
const LoadedModel& TinyLoadedModel();
ModelLimits TinyLimits();

// Recorder keeps the events that a client would have seen.
class Recorder final : public ResultSink {
 public:
  void OnEvent(Event event) override;
  void OnEnd(absl::Status why) override;

  // Waits, at most a minute; false if it took longer.
  bool Wait() { return done_.WaitForNotificationWithTimeout(absl::Seconds(60)); }
  bool WaitForTokens(size_t count);
  bool ended() const { return done_.HasBeenNotified(); }

  // After Wait.
  absl::Status status;
  std::vector<uint32_t> tokens;
  std::vector<float> logprobs;
  std::vector<std::string> texts;
  std::vector<std::string> evictions;  // as text, so that they can be compared
  std::vector<v1::EvictionEvent> eviction_events;
  v1::Started started;
  v1::Finished finished;
  std::string text() const;

  // Called for each event, on the step loop's thread. Set before the request is pushed.
  std::function<void(const v1::GenerateResponse&)> on_event;

 private:
  absl::Mutex mutex_;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Notification done_;
};

struct HarnessOptions {
  int depth = 0;     // of the device
  uint32_t lag = 0;  // of the link
  uint32_t num_pages = 2048;
  TokenBudget token_budget = {.alone = 64, .beside_decodes = 64};
  uint32_t max_batch = 16;
  absl::Duration queue_timeout = absl::InfiniteDuration();
  absl::Duration orphan_ttl = absl::ZeroDuration();
  absl::Duration park_paused_after = absl::Seconds(2);
  cache::Admission admission = cache::Admission::kReserve;
  uint32_t swap_slots = 0;
};

class EngineHarness {
 public:
  explicit EngineHarness(const HarnessOptions& options = {});
  // Checks that all pages came back and the books are right.
  ~EngineHarness();

  cache::Coordinator& coordinator() { return coordinator_; }
  folio::testing::InProcessLink& link() { return *link_; }
  RequestQueue& queue() { return queue_; }
  Engine& engine() { return *engine_; }
  const StepGauge& gauge() const { return gauge_; }

  // Starts the step loop. Before it, `link().observer` may be set. Requests are refused until then.
  void Start();
  std::shared_ptr<Submission> Push(SequenceRequest request, Recorder* recorder);
  // Pushes and waits.
  std::unique_ptr<Recorder> Run(SequenceRequest request);
  // Overwrites every page that no sequence holds, as another worker might at any moment. For
  // `link().observer`.
  void ScribbleOnFreePages();
  // Overwrites the first page of a sequence that runs with NaN, as broken memory might. On the step
  // loop's thread, such as in Recorder::on_event.
  void DamagePageOf(SequenceId id);
  // Waits until the coordinator has all pages back; false after ten seconds.
  bool PagesAreBack();
  // The result of Engine::Run, which must be about to end.
  absl::Status Join();
  // After Join, with the link broken: the worker is gone, and another one is there, over the same
  // pages and not started yet.
  void NextWorker();

 private:
  void Attach();

  HarnessOptions options_;
  std::vector<std::byte> pages_;
  std::vector<float> scores_;
  std::vector<float> swap_;  // in words, so that scores are aligned
  kernels::PoolView view_;
  RealClock clock_;
  cache::Coordinator coordinator_;
  RequestQueue queue_;
  StepGauge gauge_;
  WorkerId worker_;
  std::unique_ptr<folio::testing::InProcessLink> link_;
  std::unique_ptr<model::Executor> executor_;
  std::unique_ptr<Engine> engine_;
  std::thread thread_;
  absl::Status result_;
};

// As in services/client/policy_text.h.
inline constexpr char kFull[] = "full";
inline constexpr char kPaged[] = "paged_eviction";
inline constexpr char kStreaming[] = "streaming_llm";

// Requests of random tokens.
struct Ask {
  uint32_t prompt = 50;
  uint64_t seed = 1;  // of the prompt and of the sampling
  uint32_t max_new_tokens = 40;
  std::string policy = kFull;
  uint32_t budget = 0;
  bool pyramid = false;  // the budget falls from layer to layer
  bool synchronous = true;
  float temperature = 0;
  uint32_t stride = 0;  // of a streamed compaction, or 0 for a whole one
};
SequenceRequest Make(const Ask& ask);

}  // namespace folio::worker::testing

#endif  // FOLIO_TESTS_WORKER_ENGINE_HARNESS_H_
