#include "services/worker/engine/answer.h"

#include <utility>

namespace folio::worker {

absl::Status Answer::Start(Started started) {
  auto rules = OutputRules::Begin(&submission_->request, tokenizer_);
  if (!rules.ok()) return rules.status();
  rules_.emplace(*std::move(rules));
  delivery_.Start(std::move(started));
  return absl::OkStatus();
}

absl::Status Answer::Take(const model::SegmentOutput& output, Delivery::CacheStatsReader cache) {
  const bool finished = delivery_.Take(output, cache);
  return finished ? absl::OkStatus() : rules_->Take({&output.token, 1});
}

absl::Status Answer::Replay(const std::vector<TokenId>& tokens, Delivery::CacheStatsReader cache) {
  if (delivery_.Replay(tokens, cache)) return absl::OkStatus();
  return rules_->Take(tokens);
}

}  // namespace folio::worker
