// The part of manager_session.h that carries plans out.
#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "services/worker/engine/manager_session.h"
#include "services/worker/engine/plan_check.h"

namespace folio::worker {
namespace {

// Whether the client is to be told of the sequence's next plan. A sequence that was parked evicts
// again what it evicted before.
bool NewToClient(Sequence* sequence) {
  CacheCounters& counters = sequence->counters();
  if (!sequence->request().report_evictions || counters.plans < counters.reported_plans) {
    return false;
  }
  ++counters.reported_plans;
  return true;
}

}  // namespace

void ManagerSession::NoteCommit(const Sequence& sequence, const CommitTokens& commit) {
  const bool at_stop = sequence.state().phase() == Phase::kAwaitPlan;
  if (at_stop || !commit.filled.empty()) sequence.request().trace->OnAsked(SteadyNow());
}

void ManagerSession::ApplyPlan(const Plan& plan) {
  Sequence* sequence = Find(plan.sequence);
  // The manager forgets the plan of a sequence that it closes or parks.
  if (sequence == nullptr || sequence->state().gives_pages_back()) return;
  const model::BlockTables& table = TableOf(*sequence);
  if (absl::Status valid = ValidatePlan(plan, sequence->state().phase(), table); !valid.ok()) {
    return sequence->End(CloseReason::kError, valid);
  }
  CacheCounters& counters = sequence->counters();
  const uint32_t held = table.total_pages();
  // A page that leaves the table is out of use when the steps in flight are collected, and when it
  // was copied back from swap memory. Moved tokens
  // are in place when the step after the move is, because a device that runs behind moves them
  // just before that step.
  uint64_t busy_until = std::max(steps_->enqueued, sequence->state().progress().busy_until);
  if (const auto* compaction = std::get_if<CompactAction>(&plan.action)) {
    if (executor_->pipeline_depth() > 0) ++busy_until;
    ApplyCompaction(sequence, *compaction);
    sequence->state().OnCompacted(busy_until);
  } else {
    ApplyDrop(sequence, std::get<DropAction>(plan.action));
  }
  const uint32_t freed = held - table.total_pages();
  counters.evicted_pages += freed;
  ++counters.plans;
  const std::shared_ptr<SequenceTrace>& trace = sequence->request().trace;
  if (trace != nullptr) {
    const bool compaction = std::holds_alternative<CompactAction>(plan.action);
    trace->OnPlan(plan.epoch, compaction, freed, SteadyNow());
  }
  const LeaseEpoch lease = sequence->state().grant()->lease_epoch;
  due_acks_.push_back({busy_until, {plan.sequence, lease, plan.epoch}, trace});
}

void ManagerSession::ApplyCompaction(Sequence* sequence, const CompactAction& action) {
  Eviction eviction;
  eviction.prompt_tokens = TokenCount(sequence->state().progress().fed);
  if (sequence->request().report_evictions) {
    eviction.layers =
        sequence->counters().survivors.Keep(action, TableOf(*sequence), eviction.prompt_tokens);
  }
  executor_->Compact(sequence->state().held()->slot, action);
  if (NewToClient(sequence)) sequence->answer().delivery().Report(std::move(eviction));
}

void ManagerSession::ApplyDrop(Sequence* sequence, const DropAction& action) {
  tables().DropBlocks(sequence->state().held()->slot, action);
  if (!NewToClient(sequence)) return;
  const uint32_t fed_back = sequence->state().progress().fed - sequence->request().prompt_tokens();
  Eviction eviction = {
      .step = static_cast<int32_t>(fed_back) - 1, .prompt_tokens = {}, .layers = {}};
  for (const std::optional<BlockIndex>& block : action.block) {
    eviction.layers.push_back({{}, block});
  }
  sequence->answer().delivery().Report(std::move(eviction));
}

}  // namespace folio::worker
