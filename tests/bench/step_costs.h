// PrintManagerCost measures the cost of the separate manager in a step: waiting, round trips, and
// the work that eviction adds.
#ifndef FOLIO_TESTS_BENCH_STEP_COSTS_H_
#define FOLIO_TESTS_BENCH_STEP_COSTS_H_

#include <functional>
#include <memory>
#include <string>

#include "services/worker/device/loaded_model.h"
#include "tests/bench/serving_harness.h"

namespace folio::bench {

// Prints the section. It runs 8 sequences over 2,048 tokens with budget 1,024 against the manager
// process and against the coordinator in this process, which `make` and `start` provide. Scoring is
// timed alone, with the kernels called `kernels`.
void PrintManagerCost(
    const worker::LoadedModel& model, int threads, const std::string& kernels,
    const std::function<std::unique_ptr<ManagerSide>(ManagerKind)>& make,
    const std::function<std::unique_ptr<ServingHarness>(std::unique_ptr<ManagerSide>)>& start);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_STEP_COSTS_H_
