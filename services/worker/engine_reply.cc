// Engine: what the manager says, carried out at a step boundary.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/worker/engine.h"
#include "services/worker/score_plan.h"

namespace folio::worker {

namespace v1 = folio::v1;

namespace {

absl::Status FromWire(int32_t code, const std::string& message) {
  return {static_cast<absl::StatusCode>(code), message};
}

}  // namespace

void Engine::ProcessReplies() {
  while (std::optional<v1::SessionReply> reply = link_->TryReceive()) Process(*reply);
}

void Engine::Process(const v1::SessionReply& reply) {
  for (const v1::OpenResult& result : reply.opened()) Opened(result);
  for (const v1::ClaimResult& result : reply.claimed()) Claimed(result);
  for (const v1::PageGrant& grant : reply.granted()) Granted(grant);
  for (const v1::EvictionPlan& plan : reply.plans()) Carry(plan);
  for (const v1::SequenceError& error : reply.failed()) {
    if (Sequence* sequence = Find(error.sequence_id())) {
      End(sequence, v1::CLOSE_REASON_ERROR, FromWire(error.code(), error.message()));
    }
  }
  for (const auto& sequence : sequences_) {
    if (sequence->awaited_step != 0 && sequence->awaited_step <= reply.step()) {
      sequence->awaits_reply = false;
      sequence->awaited_step = 0;
    }
  }
}

template <typename Result>
Sequence* Engine::Answered(const Result& result) {
  const auto it = std::find_if(sequences_.begin(), sequences_.end(), [&](const auto& sequence) {
    return sequence->tag == result.request_tag();
  });
  if (it == sequences_.end()) return nullptr;
  Sequence* sequence = it->get();
  if (result.code() != 0) {
    End(sequence, v1::CLOSE_REASON_ERROR, FromWire(result.code(), result.message()));
    sequences_.erase(it);  // the manager holds nothing for it
    return nullptr;
  }
  sequence->opened = true;
  sequence->id = SequenceId(result.sequence_id());
  sequence->lease_epoch = LeaseEpoch(result.lease_epoch());
  sequence->cache = result.cache();
  sequence->admitted = absl::Now();
  // Cancelled meanwhile: SendDue closes it.
  return sequence->phase == Phase::kClosing ? nullptr : sequence;
}

template Sequence* Engine::Answered(const v1::ClaimResult&);

bool Engine::Admit(Sequence* sequence, const v1::ScoreNeed& first, const v1::ScoreNeed& second) {
  const auto scores = PlanScores(first, second);
  if (!scores.ok()) {
    End(sequence, v1::CLOSE_REASON_ERROR, scores.status());
    return false;
  }
  sequence->scores = *scores;
  if (sequence->window().queries > options_.prompt_chunk.alone) {
    End(sequence, v1::CLOSE_REASON_ERROR,
        absl::InvalidArgumentError(absl::StrCat("the policy's window ", scores->window.queries,
                                                " is above this worker's --prefill_chunk ",
                                                options_.prompt_chunk.alone,
                                                ": lower the window")));
    return false;
  }
  sequence->ledger.resident.assign(options_.geometry.num_layers, 0);
  sequence->slot = executor_->Acquire(scores->kind);
  sequence->has_slot = true;
  return true;
}

void Engine::Opened(const v1::OpenResult& result) {
  Sequence* sequence = Answered(result);
  if (sequence == nullptr || !Admit(sequence, result.scores(), result.prompt_scores())) return;
  if (!Extend(sequence, result.layers()) ||
      executor_->free_tokens(sequence->slot) < sequence->prompt_tokens()) {
    End(sequence, v1::CLOSE_REASON_ERROR,
        absl::InternalError("the manager opened the sequence with too few pages"));
    return;
  }
  sequence->phase = Phase::kPrefill;
  sequence->submission->sink->Event(StartedEvent(*sequence));
}

bool Engine::Extend(Sequence* sequence,
                    const google::protobuf::RepeatedPtrField<v1::LayerPages>& layers) {
  if (layers.size() != static_cast<int>(options_.geometry.num_layers)) return false;
  std::vector<std::vector<PageRef>> pages(layers.size());
  uint32_t count = 0;
  for (int layer = 0; layer < layers.size(); ++layer) {
    const v1::LayerPages& from = layers[layer];
    if (from.pages_size() != from.generations_size()) return false;
    for (int i = 0; i < from.pages_size(); ++i) {
      if (from.pages(i) >= options_.num_pages) return false;
      pages[layer].push_back({PageId(from.pages(i)), Generation(from.generations(i))});
    }
    count += static_cast<uint32_t>(from.pages_size());
  }
  executor_->ExtendTables(sequence->slot, pages);
  sequence->ledger.AddPages(count);
  return true;
}

void Engine::Granted(const v1::PageGrant& grant) {
  Sequence* sequence = Find(grant.sequence_id());
  if (sequence == nullptr || sequence->phase == Phase::kClosing) return;
  if (!Extend(sequence, grant.layers())) {
    End(sequence, v1::CLOSE_REASON_ERROR,
        absl::InternalError("the manager granted pages of a malformed shape"));
  }
}

void Engine::Carry(const v1::EvictionPlan& plan) {
  Sequence* sequence = Find(plan.sequence_id());
  if (sequence == nullptr || sequence->phase == Phase::kClosing) return;
  const absl::Status carried = plan.has_compact() ? CarryCompact(sequence, plan.compact())
                                                  : CarryDrop(sequence, plan.drop_page());
  if (!carried.ok()) {
    End(sequence, v1::CLOSE_REASON_ERROR, carried);
    return;
  }
  ++sequence->ledger.plans;
  // On a device that runs behind, moved tokens are in place when the next step is done; a dropped
  // page is out of use when the steps already under way are.
  uint64_t busy_until = enqueued_;
  if (plan.has_compact() && depth_ > 0) {
    busy_until = enqueued_ + 1;
    sequence->busy_until = busy_until;
  }
  DueAck due{busy_until, {}};
  due.ack.set_sequence_id(plan.sequence_id());
  due.ack.set_lease_epoch(sequence->lease_epoch.value());
  due.ack.set_plan_epoch(plan.plan_epoch());
  due_acks_.push_back(std::move(due));
}

bool Engine::Fits(const Sequence& sequence, const v1::CompactPlan& plan) const {
  const CacheGeometry& geometry = options_.geometry;
  if (sequence.phase != Phase::kAwaitPlan ||
      plan.layers_size() != static_cast<int>(geometry.num_layers)) {
    return false;
  }
  for (int layer = 0; layer < plan.layers_size(); ++layer) {
    const auto& slots = plan.layers(layer).keep();
    const uint32_t resident = sequence.ledger.resident[layer];
    // Ascending and inside, checked at once: each above the one before, the last below the end.
    if (slots.empty() || slots[slots.size() - 1] >= resident ||
        std::adjacent_find(slots.begin(), slots.end(), std::greater_equal<>()) != slots.end()) {
      return false;
    }
    const uint64_t pages_left =
        uint64_t{geometry.pages_for(slots.size())} + plan.layers(layer).spare_pages();
    if (pages_left > executor_->pages(sequence.slot, LayerIndex(layer))) return false;
  }
  return true;
}

absl::Status Engine::CarryCompact(Sequence* sequence, const v1::CompactPlan& plan) {
  const CacheGeometry& geometry = options_.geometry;
  if (!Fits(*sequence, plan)) {
    return absl::InternalError("the manager's compaction does not fit the sequence");
  }
  CacheLedger& ledger = sequence->ledger;
  std::vector<std::vector<SlotIndex>> keep(plan.layers_size());
  std::vector<uint32_t> spare(plan.layers_size());
  uint32_t pages = 0;
  for (int layer = 0; layer < plan.layers_size(); ++layer) {
    const auto& slots = plan.layers(layer).keep();
    keep[layer].reserve(slots.size());
    for (const uint32_t slot : slots) keep[layer].emplace_back(slot);
    spare[layer] = plan.layers(layer).spare_pages();
    ledger.resident[layer] = static_cast<uint32_t>(slots.size());
    pages += geometry.pages_for(ledger.resident[layer]) + spare[layer];
  }
  executor_->Compact(sequence->slot, keep, spare);

  ledger.evicted_pages += ledger.pages - pages;
  ledger.pages = pages;
  sequence->phase = Phase::kDecode;
  if (!sequence->request().report_evictions) return absl::OkStatus();
  v1::GenerateResponse event;
  event.mutable_eviction()->set_step(-1);
  for (const v1::CompactPlan::Layer& layer : plan.layers()) {
    // Nothing was evicted before, so a slot's number is its token's logical position.
    auto* reported = event.mutable_eviction()->add_layers();
    *reported->mutable_kept() = layer.keep();
    reported->set_dropped_block(-1);
  }
  sequence->submission->sink->Event(std::move(event));
  return absl::OkStatus();
}

absl::Status Engine::CarryDrop(Sequence* sequence, const v1::DropPagePlan& plan) {
  const CacheGeometry& geometry = options_.geometry;
  CacheLedger& ledger = sequence->ledger;
  absl::Status malformed = absl::InternalError("the manager's plan does not fit the sequence");
  const int named =
      plan.layer().empty() ? static_cast<int>(geometry.num_layers) : plan.layer_size();
  if (sequence->phase != Phase::kDecode || plan.block_index_size() != named) return malformed;
  std::vector<std::optional<BlockIndex>> blocks(geometry.num_layers);
  for (int i = 0; i < named; ++i) {
    const uint32_t layer = plan.layer().empty() ? static_cast<uint32_t>(i) : plan.layer(i);
    if (layer >= geometry.num_layers || blocks[layer].has_value() ||
        plan.block_index(i) >= ledger.resident[layer] / geometry.page_tokens) {
      return malformed;
    }
    blocks[layer] = BlockIndex(plan.block_index(i));
  }
  executor_->DropBlocks(sequence->slot, blocks);

  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    if (blocks[layer].has_value()) ledger.resident[layer] -= geometry.page_tokens;
  }
  ledger.evicted_pages += static_cast<uint32_t>(named);
  ledger.pages -= static_cast<uint32_t>(named);
  if (!sequence->request().report_evictions) return absl::OkStatus();
  v1::GenerateResponse event;
  const uint32_t generated_fed = sequence->fed - sequence->prompt_tokens();
  event.mutable_eviction()->set_step(static_cast<int32_t>(generated_fed) - 1);
  for (const std::optional<BlockIndex>& block : blocks) {
    event.mutable_eviction()->add_layers()->set_dropped_block(
        block.has_value() ? static_cast<int32_t>(block->value()) : -1);
  }
  sequence->submission->sink->Event(std::move(event));
  return absl::OkStatus();
}

Sequence* Engine::Find(uint64_t sequence_id) {
  const auto it = std::find_if(sequences_.begin(), sequences_.end(), [&](const auto& sequence) {
    return sequence->opened && sequence->id.value() == sequence_id;
  });
  return it == sequences_.end() ? nullptr : it->get();
}

}  // namespace folio::worker
