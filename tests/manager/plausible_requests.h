// PlausibleRequests makes what a worker could send next for the sequences that it has, as the
// coordinator knows them.
#ifndef FOLIO_TESTS_MANAGER_PLAUSIBLE_REQUESTS_H_
#define FOLIO_TESTS_MANAGER_PLAUSIBLE_REQUESTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "folio/v1/kv_manager.pb.h"
#include "services/cache/inspector.h"
#include "services/wire/session.h"
#include "tests/manager/manager_harness.h"
#include "tests/testing/random_damage.h"
#include "tests/wire/random_session.h"

namespace folio::manager {

class PlausibleRequests {
 public:
  // For a cache of two layers with pages of 16 tokens. Both are borrowed.
  PlausibleRequests(const cache::Coordinator& coordinator, testing::RandomDamage& random)
      : inspector_(coordinator), random_(random) {}

  std::vector<cache::SequenceInfo> SequencesOf(WorkerId worker) const {
    std::vector<cache::SequenceInfo> found;
    for (cache::SequenceInfo& info : inspector_.sequences()) {
      if (info.worker == worker) found.push_back(std::move(info));
    }
    return found;
  }

  // The step that a worker would commit next.
  v1::CommitTokens Commit(const cache::SequenceInfo& info) {
    v1::CommitTokens commit;
    commit.set_sequence_id(info.id.value());
    commit.set_lease_epoch(info.lease_epoch.value());
    const uint32_t length = info.logical_length.value();
    const uint32_t prompt = info.prompt_tokens.value();
    if (length < prompt) {
      const uint32_t next = length + 1 + random_.Below(prompt - length);
      commit.set_logical_length(next);
      if (next == prompt) commit.add_sampled_tokens(7);
      return commit;
    }
    commit.set_logical_length(length + 1);
    commit.add_sampled_tokens(7);
    const auto detail = inspector_.sequence(info.id);
    for (const cache::LayerTableInfo& layer : detail->layers) {
      const uint32_t resident = layer.resident.value() + 1;
      if (resident % 16 != 0 || layer.pages.size() < resident / 16) continue;
      const PageRef page = layer.pages[resident / 16 - 1];
      v1::PageRef* filled = commit.add_filled();
      filled->set_page(page.page.value());
      filled->set_generation(page.generation.value());
    }
    return commit;
  }

  template <typename Item>
  void Name(const cache::SequenceInfo& info, Item* item) {
    item->set_sequence_id(info.id.value());
    item->set_lease_epoch(info.lease_epoch.value());
  }

  void Acknowledge(const cache::SequenceInfo& info, v1::SessionRequest& request) {
    v1::AckPlan* ack = request.add_ack();
    Name(info, ack);
    ack->set_plan_epoch(info.plan_epoch.value());
  }

  // Gives a request that the worker could send now, or random items of no sequence.
  v1::SessionRequest Next(WorkerId worker, uint64_t step) {
    if (random_.OneIn(8)) return wire::ToProto(strange_.Request());
    v1::SessionRequest request;
    request.set_step(step);
    for (const cache::SequenceInfo& info : SequencesOf(worker)) {
      if (!random_.OneIn(4)) Continue(info, request);
    }
    if (random_.OneIn(3)) *request.add_open() = Open();
    for (const cache::SequenceInfo& info : inspector_.sequences()) {
      if (info.state != cache::SequenceState::kOrphaned || !random_.OneIn(4)) continue;
      v1::ClaimSequence* claim = request.add_claim();
      claim->set_sequence_id(info.id.value());
      claim->set_resume_token(testing::kSmallResumeToken);
      claim->set_may_be_parked(random_.OneIn(2));
      claim->set_may_be_swapped(random_.OneIn(2));
    }
    request.mutable_progress()->set_steps_done(step);
    return request;
  }

 private:
  v1::OpenSequence Open() {
    v1::OpenSequence open;
    open.set_request_tag(random_.Bits());
    for (uint64_t i = 1 + random_.Below(100); i > 0; --i) {
      open.add_prompt_tokens(random_.Below(500));
    }
    open.set_max_new_tokens(1 + random_.Below(100));
    v1::Policy& policy = *open.mutable_cache()->mutable_policy();
    switch (random_.Below(4)) {
      case 0:
        policy.mutable_full();
        break;
      case 1:
        policy.mutable_paged_eviction();
        break;
      case 2:
        policy.mutable_streaming_llm();
        break;
      case 3:
        policy.mutable_key_diff();
        break;
    }
    if (!policy.has_full()) open.mutable_cache()->set_budget_tokens(48 + 16 * random_.Below(3));
    if (random_.OneIn(2)) open.mutable_cache()->set_eviction_mode(v1::EVICTION_MODE_SYNCHRONOUS);
    if (random_.OneIn(2)) open.set_resume_token(testing::kSmallResumeToken);
    open.set_may_be_parked(random_.OneIn(2));
    open.set_may_be_swapped(random_.OneIn(2));
    open.set_waits_for_room(random_.OneIn(4));
    open.set_priority(static_cast<int32_t>(random_.Below(201)) - 100);
    return open;
  }

  // Adds something that a worker may ask for one of its sequences.
  void Continue(const cache::SequenceInfo& info, v1::SessionRequest& request) {
    if (info.state == cache::SequenceState::kParked) {
      Name(info, request.add_unpark());
    } else if (info.state == cache::SequenceState::kEvicting) {
      Acknowledge(info, request);
      *request.add_commit() = Commit(info);
    } else if (random_.OneIn(12)) {
      Name(info, request.add_close());
    } else if (random_.OneIn(12)) {
      Name(info, request.add_park());
      request.mutable_park(0)->set_swapped(random_.OneIn(2));
    } else {
      *request.add_commit() = Commit(info);
    }
  }

  const cache::Inspector inspector_;
  testing::RandomDamage& random_;
  wire::RandomSession strange_{random_.Bits(), 2};
};

}  // namespace folio::manager

#endif  // FOLIO_TESTS_MANAGER_PLAUSIBLE_REQUESTS_H_
