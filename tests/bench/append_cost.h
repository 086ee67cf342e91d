// ScoringMicros times the scores that are written with each token, alone. ClearingMicros times the
// clearing of the pages that a token is written to.
#ifndef FOLIO_TESTS_BENCH_APPEND_COST_H_
#define FOLIO_TESTS_BENCH_APPEND_COST_H_

#include <string>

#include "kernels/views.h"
#include "services/model/source/model_source.h"

namespace folio::bench {

// Microseconds a token over all layers, with the kernels called `kernels`.
double ScoringMicros(const model::ModelConfig& config, int threads, const std::string& kernels,
                     kernels::ScoreKind score);

// The same for pages that another tenant has used. They are not in the processor's caches.
double ClearingMicros(const model::ModelConfig& config, int threads);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_APPEND_COST_H_
