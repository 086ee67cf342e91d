#include "services/model/executor/logit_edits.h"

#include <limits>

namespace folio::model {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

float Edited(float logit, const LogitEdits& edits, const LogitEdit& edit) {
  if (edit.in_text) {
    logit = logit > 0 ? logit / edits.repetition_penalty : logit * edits.repetition_penalty;
  }
  if (edit.in_answer > 0) {
    logit -= edits.frequency_penalty * static_cast<float>(edit.in_answer);
    logit -= edits.presence_penalty;
  }
  return logit + edit.bias;
}

bool Allowed(absl::Span<const uint32_t> allowed, size_t token) {
  return token / 32 < allowed.size() && (allowed[token / 32] >> (token % 32) & 1) != 0;
}

}  // namespace

std::vector<float> EditLogits(absl::Span<const float> logits, const LogitEdits& edits,
                              TokenId last) {
  std::vector<float> edited(logits.begin(), logits.end());
  bool counted = !edits.counts_last;
  for (LogitEdit edit : edits.tokens) {
    if (edits.counts_last && edit.token == last) {
      ++edit.in_answer;
      edit.in_text = counted = true;
    }
    float& logit = edited[edit.token.value()];
    logit = Edited(logit, edits, edit);
  }
  if (!counted) {
    float& logit = edited[last.value()];
    logit = Edited(logit, edits, {.token = last, .in_answer = 1, .in_text = true});
  }
  if (edits.allowed.empty()) return edited;
  for (size_t token = 0; token < edited.size(); ++token) {
    if (!Allowed(edits.allowed, token)) edited[token] = kNever;
  }
  return edited;
}

}  // namespace folio::model
