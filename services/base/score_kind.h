// ScoreKind is an importance score that a worker writes for each token and KV head. This header is
// the only definition of the kinds. The protocol's ScoreKind has the same numbers, the worker plans
// its work by `time`, kernels are named after the kind, and policies say which kind they read.
//
// To add a kind, add an enumerator, its row in kScoreKinds and the protocol's enumerator of the
// same number. Then give it a kernel (see CONTRIBUTING.md).
#ifndef FOLIO_SERVICES_BASE_SCORE_KIND_H_
#define FOLIO_SERVICES_BASE_SCORE_KIND_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace folio {

// K and V are the values as stored in the page, in bfloat16.
enum class ScoreKind : uint8_t {
  kNone = 0,
  kNormRatio = 1,            // ||V||2 / ||K||2
  kInverseKeyNorm = 2,       // 1 / ||K||2
  kKeyDifference = 3,        // -cos(K, mean of the normalised keys of the resident tokens)
  kWindowAttention = 4,      // attention mass from the prompt's last queries, max-pooled
  kUnrotatedDifference = 5,  // -cos(K, mean of sampled normalised keys), rotation undone
  kValueNorm = 6,            // ||V||2
};

// ScoreTime says when a worker writes a kind of score.
enum class ScoreTime : uint8_t {
  kNever = 0,
  kAppend = 1,     // together with the token's K and V
  kPromptEnd = 2,  // once for the whole prompt, in the step that ends it
  kDecision = 3,   // for every resident token, in each step that a decision may follow
  kPageFill = 4,   // when the prompt is compacted or ends, and for a page's tokens when it fills
};

// ScoreCost says what a score reads besides the token's own row. n is the number of resident
// tokens.
enum class ScoreCost : uint8_t {
  kNothing,
  kOwnRow,        // O(1) per token, in the pass that appends it
  kWindow,        // O(window * n) once, at the prompt's end
  kAllResident,   // O(n) per decision
  kSampledPages,  // O(1) per token when a page fills: a bounded sample of keys
};

struct ScoreTraits {
  ScoreKind kind;
  absl::string_view name;
  ScoreTime time;
  ScoreCost cost;
  uint32_t channels;  // of the score board that may hold it: 2 if the prompt's own may as well
};

// One row per kind, in the order of the enumerators.
inline constexpr ScoreTraits kScoreKinds[] = {
    {ScoreKind::kNone, "none", ScoreTime::kNever, ScoreCost::kNothing, 1},
    {ScoreKind::kNormRatio, "norm_ratio", ScoreTime::kAppend, ScoreCost::kOwnRow, 1},
    {ScoreKind::kInverseKeyNorm, "inverse_key_norm", ScoreTime::kAppend, ScoreCost::kOwnRow, 1},
    {ScoreKind::kKeyDifference, "key_difference", ScoreTime::kDecision, ScoreCost::kAllResident, 1},
    {ScoreKind::kWindowAttention, "window_attention", ScoreTime::kPromptEnd, ScoreCost::kWindow, 2},
    {ScoreKind::kUnrotatedDifference, "unrotated_difference", ScoreTime::kPageFill,
     ScoreCost::kSampledPages, 1},
    {ScoreKind::kValueNorm, "value_norm", ScoreTime::kAppend, ScoreCost::kOwnRow, 1},
};
inline constexpr size_t kNumScoreKinds = sizeof(kScoreKinds) / sizeof(kScoreKinds[0]);

// False for a number of a later version, which services/wire passes on as it came.
constexpr bool IsKnown(ScoreKind kind) { return static_cast<size_t>(kind) < kNumScoreKinds; }

// Precondition: IsKnown.
constexpr const ScoreTraits& TraitsOf(ScoreKind kind) {
  return kScoreKinds[static_cast<size_t>(kind)];
}

constexpr bool WrittenAtAppend(ScoreKind kind) { return TraitsOf(kind).time == ScoreTime::kAppend; }
// Written by a kernel of its own over tokens that are resident when the step is done.
constexpr bool WrittenOnDemand(ScoreKind kind) {
  const ScoreTime time = TraitsOf(kind).time;
  return time == ScoreTime::kDecision || time == ScoreTime::kPageFill;
}
// A full page's scores stay as they are once they are written.
constexpr bool WrittenOnce(ScoreTime time) {
  return time == ScoreTime::kAppend || time == ScoreTime::kPromptEnd ||
         time == ScoreTime::kPageFill;
}

// ScoreNeed is what a policy asks of the worker for one channel of the score board.
struct ScoreNeed {
  ScoreKind kind = ScoreKind::kNone;
  ScoreTime time = ScoreTime::kNever;
  uint32_t window = 0;  // queries, for kWindowAttention
  // Neighbouring tokens of which the maximum is taken, odd, for kWindowAttention.
  uint32_t pool = 0;
  friend constexpr bool operator==(const ScoreNeed&, const ScoreNeed&) = default;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_SCORE_KIND_H_
