// LogitEdits says how the logits of one row are changed before a token is sampled: penalties for
// tokens that the text has already, biases, and tokens that may not come. EditLogits is the
// definition, which kernels/cuda/ops/sampling.h follows on a GPU.
//
// A token's logit l becomes, with r the repetition penalty, f and p those of frequency and
// presence, and n the number of times that the answer has the token:
//   l / r if l > 0, l * r otherwise, if prompt or answer have the token   (Keskar et al. 2019,
//                                                                          arXiv 1909.05858)
//   then l - f * n - p if n > 0                                           (OpenAI's API)
//   then l + the token's bias, where a bias of -infinity excludes the token
// All in float32, in this order. Log-probabilities are those of the logits before.
//
// Pure; thread-safe.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_LOGIT_EDITS_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_LOGIT_EDITS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/base/ids.h"

namespace folio::model {

struct LogitEdit {
  TokenId token;
  uint32_t in_answer = 0;  // how often the answer has the token
  bool in_text = false;    // prompt or answer have it
  float bias = 0;
};

// Both spans are borrowed until Executor::Enqueue has returned.
struct LogitEdits {
  float presence_penalty = 0;
  float frequency_penalty = 0;
  float repetition_penalty = 1;
  absl::Span<const LogitEdit> tokens;  // each token at most once, in any order
  // The token of the slot's last step is not known to the host yet, and counts once more.
  bool counts_last = false;
  // Bit id % 32 of word id / 32 is set if the token may come. Tokens behind the last word may not.
  // Empty: all may.
  absl::Span<const uint32_t> allowed;

  bool any() const { return !tokens.empty() || counts_last || !allowed.empty(); }
};

// The changed logits. `last` is the token that counts once more with counts_last. Tokens that may
// not come have -infinity.
std::vector<float> EditLogits(absl::Span<const float> logits, const LogitEdits& edits,
                              TokenId last);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_LOGIT_EDITS_H_
