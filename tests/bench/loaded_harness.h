// StartHarness makes the serving harness on a model that a worker has loaded for the CPU.
#ifndef FOLIO_TESTS_BENCH_LOADED_HARNESS_H_
#define FOLIO_TESTS_BENCH_LOADED_HARNESS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "services/worker/device/loaded_model.h"
#include "tests/bench/serving_harness.h"

namespace folio::bench {

// The model is borrowed.
inline absl::StatusOr<std::unique_ptr<ServingHarness>> StartHarness(
    const worker::LoadedModel& model, std::unique_ptr<ManagerSide> manager,
    uint32_t prefill_chunk) {
  worker::EngineOptions options;
  options.token_budget.alone = prefill_chunk;
  auto executor = model.MakeExecutor(manager->pool(), prefill_chunk + options.max_batch);
  if (!executor.ok()) return executor.status();
  return ServingHarness::Start(std::move(manager), *std::move(executor), &model.tokenizer(),
                               model.config().vocab, options);
}

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_LOADED_HARNESS_H_
