// From logits to tokens on the device: what services/model/sampler.h says, by the same
// counter-based random numbers, so that a sequence goes on alike wherever it is sampled.
//
// Weights of tokens (probability as a share of the likeliest token's) are whole multiples of 2^-44
// here: sums do not depend on their order, so neither does the token on how many threads there are.
// The CPU adds doubles; the two choose differently only where a draw falls within some 10^-12 of
// the border between two tokens. How to call and what is returned: kernels/cuda/ops.h.
#ifndef FOLIO_KERNELS_CUDA_SAMPLING_H_
#define FOLIO_KERNELS_CUDA_SAMPLING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda {

inline constexpr int32_t kSampled = -1;     // SampleRow::target: the logits decide
inline constexpr int32_t kNoLogprobs = -1;  // SampleRow::top_logprobs

// How one row's token is chosen. Filters in this order: temperature, min_p, top_k, top_p.
struct SampleRow {
  uint64_t seed = 0;
  float temperature = 0;  // 0: greedy, lowest id on ties
  float top_p = 1;
  float min_p = 0;
  uint32_t top_k = 0;                  // 0: all
  uint32_t position = 0;               // the logical position the token will have
  int32_t target = kSampled;           // or a token of the vocabulary, which is taken instead
  int32_t top_logprobs = kNoLogprobs;  // n: log-probabilities of the chosen and of the n likeliest
};

struct SampledToken {
  uint32_t token = 0;
  float logprob = 0;    // natural log, of the model's own distribution; with top_logprobs >= 0
  uint32_t finite = 1;  // 0: a logit is not finite, and nothing else here means anything
};

struct TopLogprob {
  uint32_t token = 0;
  float logprob = 0;
};

// logits [rows.size, vocab] float32, vocab at most kMostVocab; out [rows.size]; top [rows.size,
// most_top], of which a row's first min(top_logprobs, most_top, vocab) are written, likeliest
// first.
absl::Status Sample(Stream stream, ConstTensor logits, DeviceArray<SampleRow> rows,
                    SampledToken* out, TopLogprob* top, uint32_t most_top);
inline constexpr uint32_t kMostVocab = 1 << 18;

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_SAMPLING_H_
