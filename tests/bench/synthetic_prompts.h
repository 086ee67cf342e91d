// An executor whose prompts are not computed: the pages a sequence was given count as written, with
// whatever is in them, and the first token is made up. All else is the executor's it wraps, which
// so has sequences of any context at once. For benchmarks of what comes after the prompt.
#ifndef FOLIO_TESTS_BENCH_SYNTHETIC_PROMPTS_H_
#define FOLIO_TESTS_BENCH_SYNTHETIC_PROMPTS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "services/model/executor.h"

namespace folio::bench {

class SyntheticPrompts final : public model::Executor {
 public:
  SyntheticPrompts(std::shared_ptr<model::Executor> inner, uint32_t layers, uint32_t page_tokens)
      : inner_(std::move(inner)), layers_(layers), page_tokens_(page_tokens) {}

  int pipeline_depth() const override { return inner_->pipeline_depth(); }
  // Prompts take no rows.
  uint32_t max_rows() const override { return uint32_t{1} << 30; }

  model::SlotId Acquire(kernels::ScoreKind score) override;
  void ExtendTables(model::SlotId slot, const std::vector<std::vector<PageRef>>& pages) override;
  void Restore(model::SlotId slot, const std::vector<std::vector<PageRef>>& pages,
               const std::vector<std::vector<model::PositionRun>>& positions) override;
  void Compact(model::SlotId slot, const std::vector<std::vector<SlotIndex>>& keep,
               const std::vector<uint32_t>& spare) override;
  void DropBlocks(model::SlotId slot, const std::vector<std::optional<BlockIndex>>& block) override;
  void Release(model::SlotId slot) override;

  PageRef NewestPage(model::SlotId slot, LayerIndex layer) const override;
  uint32_t resident(model::SlotId slot, LayerIndex layer) const override;
  uint32_t pages(model::SlotId slot, LayerIndex layer) const override;
  uint32_t free_tokens(model::SlotId slot) const override;
  uint64_t TableDigest(model::SlotId slot) const override { return inner_->TableDigest(slot); }

  model::StepTicket Enqueue(const model::StepBatch& batch) override;
  model::StepOutput Collect(model::StepTicket ticket) override;
  absl::Status fault() const override { return inner_->fault(); }
  model::ExecutorTimes times() const override { return inner_->times(); }

 private:
  // A sequence in its prompt: what the wrapped executor does not know yet.
  struct Prompt {
    std::vector<std::vector<PageRef>> pages;  // [layer]
    uint32_t tokens = 0;
  };
  // Outputs of a step in their order: made up, or the wrapped executor's next.
  using Outputs = std::vector<std::optional<model::SegmentOutput>>;

  const Prompt* InPrompt(model::SlotId slot) const;
  void Finish(model::SlotId slot);

  const std::shared_ptr<model::Executor> inner_;
  const uint32_t layers_, page_tokens_;
  std::map<model::SlotId, Prompt> prompts_;
  std::map<model::SlotId, TokenId> first_;  // tokens that the next step is to be fed
  std::deque<Outputs> steps_;
};

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_SYNTHETIC_PROMPTS_H_
