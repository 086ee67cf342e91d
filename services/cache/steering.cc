#include "services/cache/steering.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/invalid_argument.h"
#include "services/cache/budgets.h"
#include "services/cache/sequence_orders.h"

namespace folio::cache {
namespace {

absl::Status CheckLowers(const SequenceRecord& record) {
  if (record.orders.close.has_value()) return Refuse(record, "an operator has ended it");
  if (!record.policy().evicts) {
    return Refuse(record, absl::StrCat("its policy ", record.policy().name, " evicts nothing"));
  }
  // A parked one is not in the middle of a compaction, so its prompt may still be to come.
  if (record.in_prompt() && !record.parked) {
    return Refuse(record, "its prompt is in prefill; lower its budget when it decodes");
  }
  return absl::OkStatus();
}

// The settings with the lower of each layer's budget and `wanted`.
absl::StatusOr<policy::CacheConfig> Lower(const SequenceRecord& record, TokenCount wanted) {
  const uint64_t page = record.geometry.page_tokens;
  const uint64_t rounded = (uint64_t{wanted.value()} + page - 1) / page * page;
  const std::string name = absl::StrCat("sequence ", record.id.value());
  const TokenCount least = policy::MinBudget(record.cache, record.geometry.page_tokens);
  if (rounded < least.value()) {
    return InvalidArgument("budget_tokens ", wanted.value(), " is too low: policy ",
                           record.policy().name, " of ", name, " and the tokens that it protects ",
                           "need at least ", least.value());
  }
  TokenCount largest;
  for (size_t layer = 0; layer < record.layers.size(); ++layer) {
    largest = std::max(largest, record.cache.layer_budget(layer));
  }
  if (rounded >= largest.value()) {
    return InvalidArgument("budget_tokens ", wanted.value(), " lowers nothing: the budget of ",
                           name, " is ", largest.value());
  }
  policy::CacheConfig lowered = record.cache;
  lowered.budget = TokenCount(static_cast<uint32_t>(rounded));
  for (TokenCount& budget : lowered.layer_budgets) budget = std::min(budget, lowered.budget);
  return lowered;
}

}  // namespace

absl::StatusOr<WorkerId> Steering::Close(SequenceId id, std::string why) {
  Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  c.AwaitDecision(id);
  const absl::StatusOr<Sequence*> found = c.Find(id);
  if (!found.ok()) return found.status();
  const SequenceRecord& record = (*found)->record();
  const WorkerId worker = record.worker;
  if (record.orphaned()) {
    c.line_.Leave({worker, id});
    c.orphanage_.EndOrphan(id);
  } else if (!record.orders.close.has_value()) {
    SequenceOrders(**found).Close(std::move(why));
    c.preemption_.NoteOrder();
  }
  return worker;
}

absl::StatusOr<WorkerId> Steering::Park(SequenceId id) {
  Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  const absl::StatusOr<Sequence*> found = c.Find(id);
  if (!found.ok()) return found.status();
  const SequenceRecord& record = (*found)->record();
  if (record.orphaned()) return Refuse(record, "its worker was lost, and no step runs");
  if (record.parked) return Refuse(record, "it is parked already");
  if (record.orders.close.has_value()) return Refuse(record, "an operator has ended it");
  if (record.orders.pinned) return Refuse(record, "it is pinned; unpin it first");
  if (!record.abilities.parks) return Refuse(record, "its worker cannot park sequences");
  if (!record.asked_back) {
    SequenceOrders(**found).Park();
    c.preemption_.NoteOrder();
  }
  return record.worker;
}

absl::StatusOr<WorkerId> Steering::Pin(SequenceId id) {
  Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  const absl::StatusOr<Sequence*> found = c.Find(id);
  if (!found.ok()) return found.status();
  uint64_t needed = 0;
  for (const auto& [other, sequence] : c.sequences_) {
    const SequenceRecord& record = sequence->record();
    const bool keeps = other == id || record.orders.pinned || !record.abilities.parks;
    if (keeps) needed += Budgets(record).WorstCase();
  }
  if (needed > c.pool_.total().value()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "sequence ", id.value(), " and those that keep their pages already may need ", needed,
        " pages together, and the pool has ", c.pool_.total().value(), "; unpin another one"));
  }
  SequenceOrders(**found).Pin();
  if ((*found)->record().starved) c.preemption_.NoteShortage();
  return (*found)->record().worker;
}

absl::StatusOr<WorkerId> Steering::Unpin(SequenceId id) {
  Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  const absl::StatusOr<Sequence*> found = c.Find(id);
  if (!found.ok()) return found.status();
  SequenceOrders(**found).Unpin();
  return (*found)->record().worker;
}

absl::StatusOr<LoweredBudget> Steering::LowerBudget(SequenceId id, TokenCount budget) {
  Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  c.AwaitDecision(id);
  const absl::StatusOr<Sequence*> found = c.Find(id);
  if (!found.ok()) return found.status();
  const SequenceRecord& record = (*found)->record();
  if (absl::Status lowers = CheckLowers(record); !lowers.ok()) return lowers;
  absl::StatusOr<policy::CacheConfig> lowered = Lower(record, budget);
  if (!lowered.ok()) return lowered.status();
  SequenceOrders(**found).LowerBudget(*std::move(lowered));
  const uint64_t over = record.in_prompt() ? 0 : Budgets(record).PagesOver();
  return LoweredBudget{record.worker, record.cache, PageCount(static_cast<uint32_t>(over))};
}

}  // namespace folio::cache
