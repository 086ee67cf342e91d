// A sequence's life between two workers.
#include <utility>

#include "services/cache/sequence.h"
#include "services/common/check.h"

namespace folio::cache {

bool Sequence::can_be_orphaned() const {
  return !notes_.resume_token.empty() && !compaction_waits();
}

void Sequence::Orphan(absl::Time now) {
  FOLIO_CHECK(can_be_orphaned() && !deciding_ && !orphaned_at_.has_value());
  orphaned_at_ = now;
}

// In a time that does not depend on how much of it is right.
bool Sequence::Knows(absl::string_view resume_token) const {
  const std::string& own = notes_.resume_token;
  if (own.empty() || resume_token.size() != own.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    difference |= static_cast<unsigned char>(own[i]) ^ static_cast<unsigned char>(resume_token[i]);
  }
  return difference == 0;
}

Claimed Sequence::Claim(WorkerId worker) {
  FOLIO_CHECK(orphaned_at_.has_value());
  orphaned_at_.reset();
  worker_ = worker;
  ++lease_epoch_;
  Claimed claimed;
  claimed.sequence = id_;
  claimed.lease_epoch = lease_epoch_;
  claimed.cache = cache_;
  claimed.sampling = notes_.sampling;
  claimed.label = notes_.label;
  claimed.output = notes_.output;
  claimed.tokens = tokens_;
  claimed.prompt_tokens = TokenCount(prompt_tokens_);
  claimed.max_new_tokens = TokenCount(max_new_tokens_);
  claimed.logical_length = TokenCount(logical_length_);
  claimed.layers = Layers();
  claimed.evicted_pages = PageCount(static_cast<uint32_t>(evicted_pages_));
  claimed.scores = policy_->score_need();
  claimed.prompt_scores = policy_->prompt_score_need();
  claimed.plan = plan_;
  return claimed;
}

}  // namespace folio::cache
