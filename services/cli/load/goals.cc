#include "services/cli/load/goals.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace folio::load {
namespace {

double Mean(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

absl::StatusOr<Goals> Goals::Parse(absl::string_view text) {
  Goals goals;
  goals.text_ = std::string(text);
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(item, absl::MaxSplits(':', 1));
    std::optional<double>* const bound = parts.first == "ttft"   ? &goals.first_
                                         : parts.first == "itl"  ? &goals.gap_
                                         : parts.first == "tpot" ? &goals.per_token_
                                         : parts.first == "e2e"  ? &goals.total_
                                                                 : nullptr;
    if (bound == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", item, "\" names no measure; give ttft, itl, tpot or e2e and a time"));
    }
    if (bound->has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" has two of ", parts.first));
    }
    absl::Duration most;
    if (!absl::ParseDuration(parts.second, &most) || most <= absl::ZeroDuration()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", item, "\" has no time; give one such as ", parts.first, ":500ms"));
    }
    *bound = absl::ToDoubleSeconds(most);
  }
  return goals;
}

bool Goals::Met(const Outcome& outcome) const {
  if (!outcome.status.ok()) return false;
  const auto within = [](std::optional<double> bound, std::optional<double> time) {
    return !bound.has_value() || !time.has_value() || *time <= *bound;
  };
  std::optional<double> gap;
  if (!outcome.gaps.empty()) gap = Mean(outcome.gaps);
  return within(first_, outcome.first) && within(gap_, gap) &&
         within(per_token_, outcome.per_token) && within(total_, outcome.total());
}

}  // namespace folio::load
