// SyntheticPrompts is an executor that does not compute prompts. The pages of a new sequence count
// as written, with their present contents, and the first token is invented. Everything else is done
// by the executor that it wraps, which therefore has sequences of any context at once. It is for
// benchmarks of the time after the prompt.
#ifndef FOLIO_TESTS_BENCH_SYNTHETIC_PROMPTS_H_
#define FOLIO_TESTS_BENCH_SYNTHETIC_PROMPTS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "services/model/executor/executor.h"

namespace folio::bench {

class SyntheticPrompts final : public model::Executor {
 public:
  explicit SyntheticPrompts(std::shared_ptr<model::Executor> inner) : inner_(std::move(inner)) {}

  int pipeline_depth() const override { return inner_->pipeline_depth(); }
  // Prompts take no rows.
  uint32_t max_rows() const override { return uint32_t{1} << 30; }

  model::SequenceTables& tables() override { return inner_->tables(); }

  model::StepTicket Enqueue(const model::StepBatch& batch) override;
  model::StepOutput Collect(model::StepTicket ticket) override;
  void Swap(const model::PageSwaps& swaps) override { inner_->Swap(swaps); }
  void Compact(model::SequenceSlot slot, const CompactAction& compact) override {
    inner_->Compact(slot, compact);
  }
  absl::Status fault() const override { return inner_->fault(); }
  model::ExecutorTimes times() const override { return inner_->times(); }

 private:
  // Outputs of a step in their order. Each is invented, or is the next one of the wrapped executor.
  using Outputs = std::vector<std::optional<model::SegmentOutput>>;

  const std::shared_ptr<model::Executor> inner_;
  std::map<model::SequenceSlot, TokenId> first_;  // made-up tokens that the next step is fed
  std::deque<Outputs> steps_;
};

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_SYNTHETIC_PROMPTS_H_
