// A device one step behind, built around a real executor: nothing is done before it must be. Steps
// and table edits queue, and run when a step is collected; what the host asks in between is
// answered from tables of the device's future. So pages that are given back too early are seen to
// be: another sequence writes them before the late step reads them.
#ifndef FOLIO_TESTS_WORKER_LATE_EXECUTOR_H_
#define FOLIO_TESTS_WORKER_LATE_EXECUTOR_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "services/common/check.h"
#include "services/model/executor.h"
#include "services/model/slot_table.h"

namespace folio::worker::testing {

class LateExecutor final : public model::Executor {
 public:
  LateExecutor(std::unique_ptr<model::Executor> inner, const kernels::PoolView& pool)
      : inner_(std::move(inner)), pool_(pool) {}

  int pipeline_depth() const override { return 1; }
  uint32_t max_rows() const override { return inner_->max_rows(); }

  model::SlotId Acquire(kernels::ScoreKind score) override {
    const model::SlotId slot = inner_->Acquire(score);
    tables_.emplace(slot, model::SlotTable(pool_, score));
    return slot;
  }
  void ExtendTables(model::SlotId slot, const std::vector<std::vector<PageRef>>& pages) override {
    table(slot).Extend(pages);
    work_.push_back([=, this] { inner_->ExtendTables(slot, pages); });
  }
  void Restore(model::SlotId slot, const std::vector<std::vector<PageRef>>& pages,
               const std::vector<std::vector<model::PositionRun>>& positions) override {
    table(slot).Restore(pages, positions);
    work_.push_back([=, this] { inner_->Restore(slot, pages, positions); });
  }
  void Compact(model::SlotId slot, const std::vector<std::vector<SlotIndex>>& keep,
               const std::vector<uint32_t>& spare) override {
    table(slot).Shrink(keep, spare);
    work_.push_back([=, this] { inner_->Compact(slot, keep, spare); });
  }
  void DropBlocks(model::SlotId slot,
                  const std::vector<std::optional<BlockIndex>>& block) override {
    table(slot).DropBlocks(block);
    work_.push_back([=, this] { inner_->DropBlocks(slot, block); });
  }
  void Release(model::SlotId slot) override {
    tables_.erase(slot);
    work_.push_back([=, this] { inner_->Release(slot); });
  }

  PageRef NewestPage(model::SlotId slot, LayerIndex layer) const override {
    return tables_.at(slot).NewestPage(layer);
  }
  uint32_t resident(model::SlotId slot, LayerIndex layer) const override {
    return tables_.at(slot).resident(layer);
  }
  uint32_t pages(model::SlotId slot, LayerIndex layer) const override {
    return static_cast<uint32_t>(tables_.at(slot).pages(layer).size());
  }
  uint32_t free_tokens(model::SlotId slot) const override { return tables_.at(slot).free_tokens(); }
  uint64_t TableDigest(model::SlotId slot) const override { return tables_.at(slot).Digest(); }

  model::StepTicket Enqueue(const model::StepBatch& batch) override {
    FOLIO_CHECK(enqueued_ - collected_ <= 1);  // one step behind, no more
    for (const model::StepSegment& segment : batch.segments) {
      const size_t tokens = segment.tokens.empty() ? 1 : segment.tokens.size();
      FOLIO_CHECK(tokens <= free_tokens(segment.slot));
      table(segment.slot).Advance(segment.first_position, static_cast<uint32_t>(tokens));
    }
    work_.push_back([=, this] { tickets_.push_back(inner_->Enqueue(batch)); });
    return model::StepTicket(++enqueued_);
  }
  model::StepOutput Collect(model::StepTicket ticket) override {
    FOLIO_CHECK(ticket.value() == ++collected_);
    while (tickets_.empty()) {
      FOLIO_CHECK(!work_.empty());
      work_.front()();
      work_.pop_front();
    }
    const model::StepTicket inner = tickets_.front();
    tickets_.pop_front();
    return inner_->Collect(inner);
  }

  model::ExecutorTimes times() const override { return inner_->times(); }

 private:
  model::SlotTable& table(model::SlotId slot) { return tables_.at(slot); }

  std::unique_ptr<model::Executor> inner_;
  kernels::PoolView pool_;
  std::map<model::SlotId, model::SlotTable> tables_;  // after all that is queued
  std::deque<std::function<void()>> work_;
  std::deque<model::StepTicket> tickets_;  // of steps run and not collected
  uint64_t enqueued_ = 0, collected_ = 0;
};

}  // namespace folio::worker::testing

#endif  // FOLIO_TESTS_WORKER_LATE_EXECUTOR_H_
