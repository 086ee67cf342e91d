// SampleTokens turns logits into tokens on the device. services/model/executor/sampler.h defines
// the method. Both use the same counter-based random numbers, so that a sequence continues alike
// wherever it is sampled.
//
// Weights of tokens (probability as a share of the likeliest token's) are whole multiples of 2^-44
// here. Sums then do not depend on their order, and the token does not depend on the number of
// threads. The CPU adds doubles, so the two choose differently only if a draw falls within some
// 10^-12 of the border between two tokens. Calls and errors are as in kernels/cuda/ops/ops.h.
#ifndef FOLIO_KERNELS_CUDA_OPS_SAMPLING_H_
#define FOLIO_KERNELS_CUDA_OPS_SAMPLING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda {

inline constexpr int32_t kSampled = -1;     // SampleRow::target: the logits decide
inline constexpr int32_t kNoLogprobs = -1;  // SampleRow::top_logprobs

// Changes one token's logit. The fields are those of services/model/executor/logit_edits.h, which
// defines what they do.
struct LogitEdit {
  uint32_t token = 0;
  uint32_t in_answer = 0;
  uint32_t in_text = 0;  // 1 if prompt or answer have the token
  float bias = 0;
};

// The changes of one row's logits. All pointers are of the device.
struct RowEdits {
  float* edited = nullptr;  // [vocab] room for the changed logits, or null if there are no edits
  const LogitEdit* tokens = nullptr;
  uint32_t count = 0;
  const uint32_t* allowed = nullptr;  // bits of the tokens that may come, or null if all may
  uint32_t allowed_words = 0;         // tokens behind them may not come
  const uint32_t* last = nullptr;     // a token that counts once more, or null
  float presence_penalty = 0;
  float frequency_penalty = 0;
  float repetition_penalty = 1;
};

// The parameters that choose one row's token. Edits come first. Filters apply in the order
// temperature, min_p, top_k, top_p.
struct SampleRow {
  uint64_t seed = 0;
  float temperature = 0;  // 0: greedy, lowest id on ties
  float top_p = 1;
  float min_p = 0;
  uint32_t top_k = 0;                  // 0: all
  uint32_t position = 0;               // the logical position the token will have
  int32_t target = kSampled;           // or a token of the vocabulary, which is used instead
  int32_t top_logprobs = kNoLogprobs;  // n: log-probabilities of the chosen and of the n likeliest
  RowEdits edits;
};

struct SampledToken {
  uint32_t token = 0;
  float logprob = 0;  // natural log, of the model's own distribution; with top_logprobs >= 0
  // 0 if a logit is not finite. The token is then 0, which a step that is under way already may
  // feed, and the log-probability means nothing.
  uint32_t finite = 1;
  uint32_t left = 1;  // 0 if the edits left no token. The token is then 0.
};

struct TopLogprob {
  uint32_t token = 0;
  float logprob = 0;
};

// logits is [rows.size, vocab] float32 with vocab at most kMaxVocab, out is [rows.size] and top is
// [rows.size, max_top]. A row's first min(top_logprobs, max_top, vocab) entries of top are written,
// likeliest first.
absl::Status Sample(Stream stream, ConstTensor logits, DeviceArray<SampleRow> rows,
                    SampledToken* out, TopLogprob* top, uint32_t max_top);
inline constexpr uint32_t kMaxVocab = 1 << 18;

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_OPS_SAMPLING_H_
