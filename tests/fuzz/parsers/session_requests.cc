#include "tests/fuzz/parsers/session_requests.h"

namespace folio::fuzz {
namespace {

constexpr char kResumeToken[] = "0123456789abcdef";

template <typename Item>
void Name(const cache::SequenceInfo& info, Item* item) {
  item->set_sequence_id(info.id.value());
  item->set_lease_epoch(info.lease_epoch.value());
}

void SetPolicy(uint32_t which, v1::Policy* policy) {
  switch (which) {
    case 0:
      policy->mutable_full();
      return;
    case 1:
      policy->mutable_paged_eviction();
      return;
    case 2:
      policy->mutable_streaming_llm();
      return;
    case 3:
      policy->mutable_key_diff();
      return;
    case 4:
      policy->mutable_query_diff();
      return;
    case 5:
      policy->mutable_snap_kv();
      return;
    default:
      policy->mutable_kv_crush();
  }
}

}  // namespace

v1::OpenSequence SessionRequests::Open(ByteSource& bytes) const {
  v1::OpenSequence open;
  for (uint32_t i = 1 + bytes.Below(6 * page_tokens_); i > 0; --i) open.add_prompt_tokens(i);
  open.set_max_new_tokens(1 + bytes.Below(6 * page_tokens_));
  v1::CacheOptions& cache = *open.mutable_cache();
  SetPolicy(bytes.Below(7), cache.mutable_policy());
  if (!cache.policy().has_full()) {
    cache.set_budget_tokens(page_tokens_ * (2 + bytes.Below(4)));
    cache.set_compaction(static_cast<v1::Compaction>(bytes.Below(3)));
    cache.set_compaction_stride_tokens(page_tokens_ * bytes.Below(3));
    if (bytes.Bit()) cache.set_layers(v1::LAYERS_SHARED);
  }
  const uint8_t flags = bytes.Byte();
  if ((flags & 1) != 0) cache.set_eviction_mode(v1::EVICTION_MODE_SYNCHRONOUS);
  if ((flags & 2) != 0) open.set_resume_token(kResumeToken);
  open.set_may_be_parked((flags & 4) != 0);
  open.set_may_be_swapped((flags & 8) != 0);
  open.set_waits_for_room((flags & 16) != 0);
  open.set_compacts_in_prefill((flags & 32) != 0);
  if ((flags & 64) != 0) open.set_prefill_ahead_tokens(page_tokens_);
  open.set_priority(static_cast<int32_t>(bytes.Below(201)) - 100);
  return open;
}

v1::CommitTokens SessionRequests::Commit(const cache::SequenceInfo& info, ByteSource& bytes) const {
  v1::CommitTokens commit;
  Name(info, &commit);
  const uint32_t length = info.logical_length.value();
  const uint32_t prompt = info.prompt_tokens.value();
  if (length < prompt) {
    const uint32_t next = length + 1 + bytes.Below(prompt - length);
    commit.set_logical_length(next);
    if (next == prompt) commit.add_sampled_tokens(7);
    return commit;
  }
  commit.set_logical_length(length + 1);
  commit.add_sampled_tokens(7);
  const auto detail = inspector_.sequence(info.id);
  if (!detail.ok()) return commit;
  for (const cache::LayerTableInfo& layer : detail->layers) {
    const uint32_t resident = layer.resident.value() + 1;
    if (resident % page_tokens_ != 0 || layer.pages.size() < resident / page_tokens_) continue;
    const PageRef page = layer.pages[resident / page_tokens_ - 1];
    v1::PageRef* filled = commit.add_filled();
    filled->set_page(page.page.value());
    filled->set_generation(page.generation.value());
  }
  return commit;
}

void SessionRequests::Continue(const cache::SequenceInfo& info, ByteSource& bytes,
                               v1::SessionRequest& request) const {
  const uint8_t choice = bytes.Byte();
  if (info.state == cache::SequenceState::kParked) {
    if (choice < 200) Name(info, request.add_unpark());
    if (choice > 230) Name(info, request.add_close());
    return;
  }
  if (info.state == cache::SequenceState::kEvicting && choice < 200) {
    v1::AckPlan* ack = request.add_ack();
    Name(info, ack);
    ack->set_plan_epoch(info.plan_epoch.value());
  }
  if (choice < 220) {
    *request.add_commit() = Commit(info, bytes);
  } else if (choice < 230) {
    Name(info, request.add_close());
  } else if (choice < 245) {
    v1::ParkSequence* park = request.add_park();
    Name(info, park);
    park->set_swapped((choice & 1) != 0);
  }
}

v1::SessionRequest SessionRequests::Next(WorkerId worker, uint64_t step, ByteSource& bytes) const {
  v1::SessionRequest request;
  request.set_step(step);
  for (const cache::SequenceInfo& info : inspector_.sequences()) {
    if (info.worker == worker && info.state != cache::SequenceState::kOrphaned) {
      Continue(info, bytes, request);
    } else if (info.state == cache::SequenceState::kOrphaned && bytes.Bit()) {
      v1::ClaimSequence* claim = request.add_claim();
      claim->set_sequence_id(info.id.value());
      claim->set_resume_token(kResumeToken);
      const uint8_t flags = bytes.Byte();
      claim->set_may_be_parked((flags & 1) != 0);
      claim->set_may_be_swapped((flags & 2) != 0);
      claim->set_compacts_in_prefill((flags & 4) != 0);
      if ((flags & 8) != 0) claim->set_prefill_ahead_tokens(page_tokens_);
    }
  }
  if (bytes.Below(3) == 1) *request.add_open() = Open(bytes);
  request.mutable_progress()->set_steps_done(step);
  return request;
}

}  // namespace folio::fuzz
