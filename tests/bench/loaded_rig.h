// The serving rig on a model that a worker has loaded for the CPU.
#ifndef FOLIO_TESTS_BENCH_LOADED_RIG_H_
#define FOLIO_TESTS_BENCH_LOADED_RIG_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "services/worker/loaded_model.h"
#include "tests/bench/serving_rig.h"

namespace folio::bench {

// The model is borrowed.
inline absl::StatusOr<std::unique_ptr<ServingRig>> StartRig(const worker::LoadedModel& model,
                                                            std::unique_ptr<ManagerSide> manager,
                                                            uint32_t prefill_chunk) {
  worker::EngineOptions options;
  options.prompt_chunk.alone = prefill_chunk;
  auto executor = model.MakeExecutor(manager->pool(), prefill_chunk + options.max_batch);
  if (!executor.ok()) return executor.status();
  return ServingRig::Start(std::move(manager), *std::move(executor), &model.tokenizer(),
                           model.config().vocab, options);
}

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_LOADED_RIG_H_
