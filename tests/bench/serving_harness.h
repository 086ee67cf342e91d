// ServingHarness is the worker's own step loop on an executor. Its manager is either a
// folio-manager process over its sockets or a coordinator in this process. It is for benchmarks.
#ifndef FOLIO_TESTS_BENCH_SERVING_HARNESS_H_
#define FOLIO_TESTS_BENCH_SERVING_HARNESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "folio/v1/types.pb.h"
#include "kernels/views.h"
#include "services/model/executor/executor.h"
#include "services/model/tokenizer/tokenizer.h"
#include "services/worker/engine/engine.h"
#include "services/worker/engine/request_queue.h"

namespace folio::bench {

enum class ManagerKind { kProcess, kInProcess };

// The manager. It owns the process or the coordinator, the pool and the link.
class ManagerSide {
 public:
  virtual ~ManagerSide() = default;
  virtual const kernels::PoolView& pool() const = 0;
  virtual worker::ManagerLink* link() = 0;
  // Seconds that the coordinator spent on requests (with deciding), or 0 for a manager process.
  virtual double manager_seconds() const { return 0; }
};

// Only kProcess uses `manager_binary`, which it starts on sockets in a temporary directory.
absl::StatusOr<std::unique_ptr<ManagerSide>> MakeManagerSide(ManagerKind kind,
                                                             const folio::v1::ModelLayout& layout,
                                                             uint64_t pool_bytes,
                                                             const std::string& manager_binary);

// The load of a run, which is the same for all sequences.
struct Workload {
  uint32_t sequences = 1;
  uint32_t context = 0;       // prompt tokens
  uint32_t decode_steps = 0;  // measured while every sequence decodes, or 0 for prefill only
  folio::v1::CacheOptions cache = {};
  uint32_t warm_up_steps = 0;  // before these
  // Tokens of each sequence before the measured ones, while other prompts are computed. With 0
  // there are as many as the chunks of prompts beside decodes take.
  uint32_t spare_tokens = 0;
  uint32_t together = 0;  // sequences that are admitted at a time, or 0 for all
};

struct Measured {
  double prefill_seconds = 0;  // first sequence: admission to first token
  double prompts_seconds = 0;  // from the start of the run to the measured steps
  double decode_seconds = 0;   // of the measured steps
  double decode_tokens = 0;    // of all sequences in that time
  // During the measured steps:
  double steps = 0;
  model::ExecutorTimes decode_times;
  double wait_seconds = 0;     // waiting for the manager, while nothing could run
  double manager_seconds = 0;  // in the coordinator, when it is in this process
  double resident_tokens = 0;  // per layer, all sequences together, in the middle of it
  double generated = 0;        // tokens of a sequence by then, on average
  // From the start of the run to the measured steps:
  double prefill_manager_seconds = 0;
  // During the whole run, in the executor:
  model::ExecutorTimes times;
};

class ServingHarness {
 public:
  // `options` get the manager's pool. The tokenizer is borrowed. Tokens of prompts are below
  // `vocab`.
  static std::unique_ptr<ServingHarness> Start(std::unique_ptr<ManagerSide> manager,
                                               std::shared_ptr<model::Executor> executor,
                                               const model::Tokenizer* tokenizer, uint32_t vocab,
                                               worker::EngineOptions options);
  ~ServingHarness();

  // FAILED_PRECONDITION if no step was measured, or if sequences ended before the last of them.
  absl::StatusOr<Measured> Run(const Workload& workload);

 private:
  ServingHarness() = default;
  std::shared_ptr<worker::Submission> MakeSubmission(const Workload& workload, uint32_t sequence,
                                                     uint32_t new_tokens) const;
  void AwaitIdle() const;
  absl::Status Push(const std::shared_ptr<worker::Submission>& submission);

  std::unique_ptr<ManagerSide> manager_;
  std::shared_ptr<model::Executor> executor_;
  worker::RequestQueue queue_;
  worker::StepGauge gauge_;
  std::unique_ptr<worker::Engine> engine_;
  std::thread thread_;
  uint32_t vocab_ = 0;
  uint32_t runs_ = 0;
};

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_SERVING_HARNESS_H_
