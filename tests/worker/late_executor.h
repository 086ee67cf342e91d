// LateExecutor is a device one step behind the host, built around a real executor: it does nothing
// before it must. Steps and table edits queue and run when a step is collected, while the host
// reads tables of the device's future. Pages that are given back too early are found this way,
// because another sequence writes them before the late step reads them.
#ifndef FOLIO_TESTS_WORKER_LATE_EXECUTOR_H_
#define FOLIO_TESTS_WORKER_LATE_EXECUTOR_H_

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "services/base/check.h"
#include "services/model/executor/executor.h"
#include "services/model/executor/sequence_tables.h"

namespace folio::worker::testing {

class LateExecutor final : public model::Executor {
 public:
  LateExecutor(std::unique_ptr<model::Executor> inner, const kernels::PoolView& pool)
      : inner_(std::move(inner)), tables_(pool.geometry, pool.num_pages) {
    tables_.KeepEdits(true);
  }

  int pipeline_depth() const override { return 1; }
  uint32_t max_rows() const override { return inner_->max_rows(); }

  model::SequenceTables& tables() override { return tables_; }
  void Compact(model::SequenceSlot slot, const CompactAction& compact) override {
    QueueEdits();
    tables_.state(slot).table.Compact(compact);
    work_.push_back([=, this] { inner_->Compact(slot, compact); });
  }

  void Swap(const model::PageSwaps& swaps) override {
    QueueEdits();
    work_.push_back([=, this] { inner_->Swap(swaps); });
  }

  model::StepTicket Enqueue(const model::StepBatch& batch) override {
    FOLIO_CHECK(enqueued_ - collected_ <= 1);  // one step behind, no more
    QueueEdits();
    for (const model::StepSegment& segment : batch.segments) {
      const size_t tokens = segment.tokens.empty() ? 1 : segment.tokens.size();
      model::BlockTables& table = tables_.state(segment.slot).table;
      FOLIO_CHECK(tokens <= table.free_tokens());
      table.Advance(segment.first_position, static_cast<uint32_t>(tokens));
    }
    work_.push_back([=, this, edits = KeptEdits(batch)] {
      tickets_.push_back(inner_->Enqueue(edits.On(batch)));
    });
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
  // The edits of a step's logits, which its batch lends until Enqueue has returned.
  struct KeptEdits {
    explicit KeptEdits(const model::StepBatch& batch) {
      for (const model::StepSegment& segment : batch.segments) {
        tokens.emplace_back(segment.edits.tokens.begin(), segment.edits.tokens.end());
        allowed.emplace_back(segment.edits.allowed.begin(), segment.edits.allowed.end());
      }
    }
    model::StepBatch On(model::StepBatch batch) const {
      for (size_t i = 0; i < batch.segments.size(); ++i) {
        batch.segments[i].edits.tokens = tokens[i];
        batch.segments[i].edits.allowed = allowed[i];
      }
      return batch;
    }
    std::vector<std::vector<model::LogitEdit>> tokens;
    std::vector<std::vector<uint32_t>> allowed;
  };

  // Edits are made on the inner executor's tables when the steps before them have run.
  void QueueEdits() {
    work_.push_back([this, edits = tables_.TakeEdits()] {
      for (const model::TableEdit& edit : edits) FOLIO_CHECK(inner_->tables().Apply(edit).ok());
    });
  }

  std::unique_ptr<model::Executor> inner_;
  model::SequenceTables tables_;  // after all that is queued
  std::deque<std::function<void()>> work_;
  std::deque<model::StepTicket> tickets_;  // of steps run and not collected
  uint64_t enqueued_ = 0, collected_ = 0;
};

}  // namespace folio::worker::testing

#endif  // FOLIO_TESTS_WORKER_LATE_EXECUTOR_H_
