// What each policy costs the prompt and the decode beside it: scoring, deciding, compacting.
#ifndef FOLIO_TESTS_BENCH_POLICY_COSTS_H_
#define FOLIO_TESTS_BENCH_POLICY_COSTS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "services/worker/loaded_model.h"
#include "tests/bench/serving_rig.h"

namespace folio::bench {

// Prints the section: a prompt of 4,096 tokens, then 8 sequences over 2,048, budget 1,024, with a
// coordinator in this process (`start` gives one), so that its time can be told. `policies` as in
// services/client/policy_text.h. Scores written with each token are timed alone.
void PrintPolicyCosts(const worker::LoadedModel& model, int threads, const std::string& kernels,
                      const std::vector<std::string>& policies,
                      const std::function<std::unique_ptr<ServingRig>()>& start);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_POLICY_COSTS_H_
