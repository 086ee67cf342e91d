// FillManager gives a scripted manager fixed facts: a pool, three sequences of two tenants, and
// events.
#ifndef FOLIO_TESTS_CLI_FIXED_MANAGER_H_
#define FOLIO_TESTS_CLI_FIXED_MANAGER_H_

#include <string>

#include "tests/client/scripted_admin.h"

namespace folio::testing {

inline folio::v1::Sequence FixedSequence(uint64_t id, folio::v1::SequenceState state,
                                         const std::string& tenant) {
  folio::v1::Sequence sequence;
  sequence.set_sequence_id(id);
  sequence.set_worker_id("w1");
  sequence.set_label("job " + std::to_string(id));
  sequence.set_tenant(tenant);
  sequence.set_state(state);
  sequence.mutable_cache()->mutable_policy()->mutable_paged_eviction();
  sequence.mutable_cache()->set_budget_tokens(256);
  sequence.mutable_cache()->set_sink_tokens(16);
  sequence.mutable_cache()->set_recent_tokens(16);
  sequence.set_prompt_tokens(1000);
  sequence.set_max_new_tokens(500);
  sequence.set_logical_length(1000 + static_cast<uint32_t>(id));
  sequence.set_resident_tokens(272);
  sequence.set_held_pages(36);
  sequence.set_reserved_pages(2);
  sequence.set_held_bytes(442368);
  sequence.set_evicted_tokens(735);
  sequence.set_evicted_pages(92);
  sequence.set_plan_epoch(3);
  sequence.set_lease_epoch(1);
  sequence.set_age_ms(61500);
  return sequence;
}

inline folio::v1::PageRun FixedRun(uint32_t pages, folio::v1::PageState state,
                                   uint64_t sequence = 0, float score = 0) {
  folio::v1::PageRun run;
  run.set_pages(pages);
  run.set_state(state);
  if (sequence != 0) run.set_sequence_id(sequence);
  if (score != 0) run.set_score(score);
  return run;
}

inline void AddPlan(folio::v1::GetSequenceResponse& detail, uint64_t epoch, uint32_t ago_ms,
                    uint32_t length, bool compaction) {
  folio::v1::PastPlan* plan = detail.add_plans();
  plan->set_plan_epoch(epoch);
  plan->set_ago_ms(ago_ms);
  plan->set_logical_length(length);
  plan->set_compaction(compaction);
  plan->set_freed_pages(compaction ? 90 : 2);
  for (uint32_t layer = 0; layer < 2; ++layer) {
    auto* loss = plan->add_losses();
    loss->set_layer(layer);
    loss->set_tokens(compaction ? 740 + layer : 16);
    loss->set_begin(16 + layer);
    loss->set_end(compaction ? 984 : 32 + layer);
  }
}

inline void FillManager(ScriptedAdmin& admin) {
  admin.manager.set_build("0.2.0 (Release, GNU 12.2.0)");
  admin.manager.set_pid(100);
  admin.manager.set_uptime_ms(3723000);
  admin.manager.set_boot_id("00112233445566778899aabbccddeeff");
  auto* pool = admin.pools.add_pools();
  pool->set_pool_id(1);
  pool->mutable_layout()->set_model("llama");
  pool->mutable_layout()->set_num_layers(2);
  pool->mutable_layout()->set_num_kv_heads(3);
  pool->mutable_layout()->set_fingerprint("f00d");
  pool->set_pool_bytes(5898240);
  pool->set_page_bytes(12288);
  pool->set_total_pages(480);
  pool->set_free_pages(350);
  pool->set_held_pages(108);
  pool->set_quarantined_pages(22);
  pool->set_reserved_pages(6);
  pool->set_sequences(3);
  auto* worker = pool->add_workers();
  worker->set_worker_id("w1");
  worker->set_name("worker-a");
  worker->set_pid(200);
  worker->set_sequences(3);
  worker->set_lease_remaining_ms(9000);
  *admin.sequences.add_sequences() = FixedSequence(7, folio::v1::SEQUENCE_STATE_DECODE, "team-a");
  *admin.sequences.add_sequences() = FixedSequence(8, folio::v1::SEQUENCE_STATE_PARKED, "");
  *admin.sequences.add_sequences() = FixedSequence(9, folio::v1::SEQUENCE_STATE_DECODE, "team-a");
  admin.sequences.mutable_sequences(2)->set_pinned(true);
  auto* team = admin.tenants.add_tenants();
  team->set_sequences(1);
  team->set_parked(1);
  team = admin.tenants.add_tenants();
  team->set_tenant("team-a");
  team->set_sequences(2);
  team->set_held_pages(72);
  team->set_held_bytes(884736);
  team->set_waiting(1);
  team->set_needed_pages(1200);
  team->mutable_quota()->set_sequences(4);
  admin.pages.resize(2);
  *admin.pages[0].add_runs() = FixedRun(36, folio::v1::PAGE_STATE_HELD, 7, 1.0F);
  *admin.pages[0].add_runs() = FixedRun(36, folio::v1::PAGE_STATE_HELD, 8);
  *admin.pages[0].add_runs() = FixedRun(100, folio::v1::PAGE_STATE_FREE);
  *admin.pages[1].add_runs() = FixedRun(22, folio::v1::PAGE_STATE_QUARANTINED);
  *admin.pages[1].add_runs() = FixedRun(36, folio::v1::PAGE_STATE_HELD, 9, 3.0F);
  *admin.pages[1].add_runs() = FixedRun(250, folio::v1::PAGE_STATE_FREE);
  *admin.sequence.mutable_sequence() = admin.sequences.sequences(0);
  for (int layer = 0; layer < 2; ++layer) {
    auto* table = admin.sequence.add_layers();
    table->set_resident_tokens(272);
    auto* range = table->add_kept();
    range->set_end(16);
    range = table->add_kept();
    range->set_begin(751);
    range->set_end(1007);
    auto* scores = admin.explanation.add_layers();
    for (int page = 0; page < 17; ++page) {
      scores->add_scores(static_cast<float>((page * (layer + 5)) % 17));
    }
  }
  AddPlan(admin.sequence, 1, 60000, 1000, true);
  for (uint64_t epoch = 2; epoch < 12; ++epoch) {
    AddPlan(admin.sequence, epoch, 60000 - 4000 * static_cast<uint32_t>(epoch), 1000, false);
  }
}

}  // namespace folio::testing

#endif  // FOLIO_TESTS_CLI_FIXED_MANAGER_H_
