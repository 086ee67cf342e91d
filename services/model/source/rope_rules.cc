#include "services/model/source/rope_rules.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::model {
namespace {

constexpr float kMaxRopeFactor = 1e6f;

// Keeps the first error.
class Checks {
 public:
  explicit Checks(const std::string& origin) : origin_(origin) {}

  void Range(absl::string_view field, float value, float low, float high) {
    // Written so that NaN is out of range.
    if (value >= low && value <= high) return;
    Fail(absl::StrCat(field, " ", value, " is out of range [", low, ", ", high, "]"));
  }
  void Context(absl::string_view of, uint32_t tokens) {
    if (tokens >= 1 && tokens <= kMaxContext) return;
    Fail(absl::StrCat(of, " original context ", tokens, " is out of range [1, ", kMaxContext, "]"));
  }
  void Fail(absl::string_view what) {
    status_.Update(absl::InvalidArgumentError(absl::StrCat(origin_, ": ", what)));
  }
  const absl::Status& status() const { return status_; }

 private:
  const std::string& origin_;
  absl::Status status_;
};

void CheckLlama3(const RopeScaling& scaling, Checks& checks) {
  checks.Range("rope scaling factor", scaling.factor, 1, kMaxRopeFactor);
  checks.Range("rope scaling low_freq_factor", scaling.low_freq_factor, 1e-6f, 1e6f);
  checks.Range("rope scaling high_freq_factor", scaling.high_freq_factor, 1e-6f, 1e6f);
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    checks.Fail(absl::StrCat("rope scaling high_freq_factor ", scaling.high_freq_factor,
                             " is not above low_freq_factor"));
  }
  checks.Context("rope scaling", scaling.original_context);
}

void CheckYarn(const YarnScaling& yarn, float theta, Checks& checks) {
  checks.Range("yarn factor", yarn.factor, 1, kMaxRopeFactor);
  checks.Range("yarn beta_slow", yarn.beta_slow, 1e-6f, 1e6f);
  checks.Range("yarn beta_fast", yarn.beta_fast, yarn.beta_slow, 1e6f);
  checks.Context("yarn", yarn.original_context);
  if (theta <= 1) checks.Fail(absl::StrCat("rope theta ", theta, " with yarn is not above 1"));
}

void CheckLongRope(const LongRopeScaling& scaling, size_t pairs, Checks& checks) {
  checks.Context("longrope", scaling.original_context);
  for (const auto& [name, divisors] :
       {std::pair("short", &scaling.short_divisors), std::pair("long", &scaling.long_divisors)}) {
    if (divisors->size() != pairs) {
      checks.Fail(absl::StrCat("longrope ", name, " factors: ", divisors->size(),
                               " numbers, expected ", pairs));
    }
    for (const float divisor : *divisors) {
      checks.Range(absl::StrCat("longrope ", name, " factor"), divisor, 1e-6f, 1e6f);
    }
  }
}

}  // namespace

absl::Status CheckRope(const std::string& origin, const ModelConfig& config) {
  Checks checks(origin);
  checks.Range("rope theta", config.rope_theta, 1, 1e12f);
  if (config.features.has(Feature::kLocalLayers) && config.others) {
    checks.Range("rope theta of local layers", config.others->rope_theta, 1, 1e12f);
  }
  checks.Range("rope magnitude", config.rope_magnitude, 1e-3f, 1e3f);
  const uint32_t rotary = config.rotary();
  if (rotary < 2 || rotary > config.head_dim || rotary % 2 != 0) {
    checks.Fail(absl::StrCat("rotated dimensions ", rotary, " are not an even part of the head's ",
                             config.head_dim));
  }
  if (config.rope_scaling) CheckLlama3(*config.rope_scaling, checks);
  if (config.yarn) CheckYarn(*config.yarn, config.rope_theta, checks);
  if (config.long_rope) CheckLongRope(*config.long_rope, rotary / 2, checks);
  if (config.query_scale) {
    checks.Range("query scale", config.query_scale->beta, 0, 100);
    checks.Context("query scale", config.query_scale->original_context);
  }
  return checks.status();
}

absl::Status ScaleRopeLinearly(const std::string& field, float factor, ModelConfig& config) {
  // Also for NaN.
  if (!(factor >= 1 && factor <= kMaxRopeFactor)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", factor, " is out of range [1, 1e6]"));
  }
  if (factor == 1) return absl::OkStatus();
  if (config.rope_divisors.empty()) config.rope_divisors.assign(config.rotary() / 2, 1.0f);
  for (float& divisor : config.rope_divisors) divisor *= factor;
  return absl::OkStatus();
}

}  // namespace folio::model
