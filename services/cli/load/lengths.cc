#include "services/cli/load/lengths.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace folio::load {
namespace {

using Pair = std::pair<absl::string_view, absl::string_view>;

// A distribution that nearly always gives too long numbers must not hold the caller up.
constexpr int kDraws = 1000;

}  // namespace

absl::StatusOr<Lengths> Lengths::Parse(absl::string_view text) {
  const auto refuse = [text](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" ", why,
                     "; give a number of tokens, uniform:LEAST..MOST or lognormal:MEAN,SIGMA"));
  };
  Lengths lengths;
  lengths.text_ = std::string(text);
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "uniform:")) {
    const Pair ends = absl::StrSplit(rest, absl::MaxSplits("..", 1));
    if (!absl::SimpleAtoi(ends.first, &lengths.first_) ||
        !absl::SimpleAtoi(ends.second, &lengths.last_)) {
      return refuse("has no two numbers");
    }
    if (lengths.first_ > lengths.last_) return refuse("ends before it begins");
  } else if (absl::ConsumePrefix(&rest, "lognormal:")) {
    lengths.kind_ = Kind::kLogNormal;
    const Pair parts = absl::StrSplit(rest, absl::MaxSplits(',', 1));
    if (!absl::SimpleAtod(parts.first, &lengths.mean_) ||
        !absl::SimpleAtod(parts.second, &lengths.sigma_)) {
      return refuse("has no mean and sigma");
    }
    if (!(lengths.mean_ >= 1 && lengths.mean_ <= 1e9)) return refuse("has no mean of 1 or more");
    if (!(lengths.sigma_ >= 0 && lengths.sigma_ <= 10)) return refuse("has no sigma from 0 to 10");
  } else if (absl::SimpleAtoi(text, &lengths.first_)) {
    lengths.last_ = lengths.first_;
  } else {
    return refuse("is not understood");
  }
  if (lengths.first_ == 0) return refuse("allows 0 tokens");
  return lengths;
}

uint32_t Lengths::Draw(SplitMix64& random, uint32_t most) const {
  if (kind_ == Kind::kUniform) {
    const uint32_t drawn = std::uniform_int_distribution<uint32_t>(first_, last_)(random);
    return std::clamp<uint32_t>(drawn, 1, most);
  }
  // The mean of the numbers is larger than the exponential of the mean logarithm.
  std::lognormal_distribution<double> lengths(std::log(mean_) - sigma_ * sigma_ / 2, sigma_);
  for (int draw = 0; draw < kDraws; ++draw) {
    const double drawn = std::round(lengths(random));
    if (drawn <= most) return std::max(static_cast<uint32_t>(drawn), 1U);
  }
  return most;
}

std::optional<uint32_t> Lengths::most() const {
  if (kind_ == Kind::kLogNormal) return std::nullopt;
  return last_;
}

}  // namespace folio::load
