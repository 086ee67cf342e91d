#include "services/cli/load/tally.h"

namespace folio::load {

void Tally::Add(const Outcome& outcome, const Goals& goals, bool cancelled) {
  if (cancelled && absl::IsCancelled(outcome.status)) {
    ++cut;
    return;
  }
  late.Add(outcome.late);
  waited += outcome.waited ? 1 : 0;
  resumed += outcome.resumed > 0 ? 1 : 0;
  if (!outcome.status.ok()) {
    Failure& failure = failures[outcome.status.code()];
    if (failure.count++ == 0) failure.first = std::string(outcome.status.message());
    return;
  }
  ++answered;
  good += goals.Met(outcome) ? 1 : 0;
  prompt_tokens += outcome.prompt_tokens;
  output_tokens += outcome.output_tokens;
  if (outcome.first.has_value()) first.Add(*outcome.first);
  for (const float gap : outcome.gaps) gaps.Add(gap);
  if (outcome.per_token.has_value()) per_token.Add(*outcome.per_token);
  total.Add(outcome.total());
}

uint64_t Tally::failed() const {
  uint64_t all = 0;
  for (const auto& [code, failure] : failures) all += failure.count;
  return all;
}

}  // namespace folio::load
