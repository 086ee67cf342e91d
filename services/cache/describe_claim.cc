#include "services/cache/describe_claim.h"

#include "services/cache/sequence.h"

namespace folio::cache {

Claimed DescribeClaim(const SequenceRecord& record) {
  Claimed claimed;
  claimed.sequence = record.id;
  claimed.lease_epoch = record.lease_epoch;
  claimed.cache = record.cache_of_prompt;  // which tells where its prompt stops
  claimed.sampling = record.metadata.sampling;
  claimed.label = record.metadata.label;
  claimed.tenant = record.tenant;
  claimed.priority = record.priority;
  claimed.output = record.metadata.output;
  claimed.tokens = record.tokens;
  claimed.prompt_tokens = TokenCount(record.prompt_tokens);
  claimed.max_new_tokens = TokenCount(record.max_new_tokens);
  claimed.logical_length = TokenCount(record.logical_length);
  claimed.layers = DescribeLayers(record);
  claimed.evicted_pages = PageCount(static_cast<uint32_t>(record.evicted_pages));
  claimed.scores = record.policy().scores;
  claimed.prompt_scores = record.policy().prompt_scores;
  claimed.scored_layers = record.cache.judges(record.geometry.num_layers);
  claimed.plan = record.plan;
  return claimed;
}

}  // namespace folio::cache
