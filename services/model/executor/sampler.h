// The sampler chooses a token from a row of logits.
//
// The order of the filters is vLLM's: temperature first, then min-p, then top-k, then top-p over
// the rest, renormalised. One draw follows. The random number is counter-based (Philox4x32-10,
// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): its key is the seed, its
// counter the position the token will have. The
// result therefore depends on neither the batch, nor the worker, nor earlier tokens' random
// numbers, and a sequence continues identically on another worker.
//
// Log-probabilities are of the model's own distribution, before temperature and filters.
//
// Pure functions; thread-safe.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_SAMPLER_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_SAMPLER_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"

namespace folio::model {

// The ten-round block function: 128 random bits.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// In [0, 1), 53 bits, of this seed and position.
double UniformAt(uint64_t seed, Position position);

// The token with the highest logit, the lowest id on ties.
TokenId Argmax(absl::Span<const float> logits);

// `position` is the logical position the sampled token will take. Logits are finite.
TokenId Sample(absl::Span<const float> logits, const SamplingRecord& sampling, Position position);

// ln(sum(exp(logit))), in double precision.
double LogSumExp(absl::Span<const float> logits);

// The n most likely tokens with their log-probabilities, most likely first, lower id first on ties.
// `log_sum` is LogSumExp of the same logits.
std::vector<std::pair<TokenId, float>> TopLogprobs(absl::Span<const float> logits, double log_sum,
                                                   int n);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_SAMPLER_H_
