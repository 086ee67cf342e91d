// PrintPolicyCosts measures the cost of each policy in prefill and decode: scoring, deciding and
// compacting.
#ifndef FOLIO_TESTS_BENCH_POLICY_COSTS_H_
#define FOLIO_TESTS_BENCH_POLICY_COSTS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "services/worker/device/loaded_model.h"
#include "tests/bench/serving_harness.h"

namespace folio::bench {

// Prints the section. It runs a prompt of 4,096 tokens and then 8 sequences over 2,048 with budget
// 1,024. The coordinator is in this process (`start` makes one), so that its time can be measured.
// `policies` are written as in services/client/policy_text.h. Scores that are written with each
// token are timed alone.
void PrintPolicyCosts(const worker::LoadedModel& model, int threads, const std::string& kernels,
                      const std::vector<std::string>& policies,
                      const std::function<std::unique_ptr<ServingHarness>()>& start);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_POLICY_COSTS_H_
