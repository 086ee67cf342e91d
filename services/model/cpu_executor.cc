#include "services/model/cpu_executor.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "services/common/check.h"
#include "services/model/pool_fit.h"
#include "services/model/resident_scoring.h"
#include "services/model/segment_output.h"
#include "services/model/slot_executor.h"
#include "services/model/step_rows.h"
#include "services/model/transformer.h"

namespace folio::model {
namespace {

using kernels::cpu::CpuOps;
using kernels::cpu::ThreadPool;

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class CpuExecutor final : public SlotExecutor {
 public:
  CpuExecutor(std::shared_ptr<const ModelWeights> weights, std::unique_ptr<CpuOps> ops,
              std::unique_ptr<ThreadPool> threads, const kernels::PoolView& pool,
              const CpuExecutorOptions& options)
      : SlotExecutor(pool),
        ops_(std::move(ops)),
        threads_(std::move(threads)),
        pool_(pool),
        max_rows_(options.max_rows),
        transformer_(std::move(weights), *ops_, *threads_, pool, max_rows_, options.group) {}

  int pipeline_depth() const override { return 0; }
  uint32_t max_rows() const override { return max_rows_; }

  void Compact(SlotId slot, const std::vector<std::vector<SlotIndex>>& keep,
               const std::vector<uint32_t>& spare) override;

  StepTicket Enqueue(const StepBatch& batch) override;
  StepOutput Collect(StepTicket ticket) override;
  ExecutorTimes times() const override;

 private:
  absl::Status Forward();
  void ScoreResident();
  absl::Status SampleAll(StepOutput& output);
  absl::Status SampleSome(absl::Span<const StepRows::Segment* const> wanted,
                          absl::Span<SegmentOutput> outputs);

  std::unique_ptr<CpuOps> ops_;
  std::unique_ptr<ThreadPool> threads_;
  kernels::PoolView pool_;
  uint32_t max_rows_;
  Transformer transformer_;
  uint64_t steps_ = 0;
  uint64_t collected_ = 0;
  std::deque<StepOutput> outputs_;  // of the steps not collected yet
  double compact_seconds_ = 0;
  double sample_seconds_ = 0;
  double score_seconds_ = 0;

  StepRows rows_;  // of the step being run
  ResidentScoring scoring_;
};

void CpuExecutor::Compact(SlotId slot, const std::vector<std::vector<SlotIndex>>& keep,
                          const std::vector<uint32_t>& spare) {
  const auto start = std::chrono::steady_clock::now();
  SlotTable& table = slots_.at(slot).table;
  FOLIO_CHECK(keep.size() == pool_.geometry.num_layers);
  threads_->ParallelFor(static_cast<int>(keep.size()),
                        [&](int task, int) { table.Gather(LayerIndex(task), keep[task]); });
  table.Shrink(keep, spare);
  compact_seconds_ += SecondsSince(start);
}

absl::Status CpuExecutor::Forward() {
  FOLIO_CHECK(rows_.count() <= max_rows_);
  absl::Status status = transformer_.Forward(
      rows_.forward(),
      [&](uint32_t layer, absl::Span<kernels::AppendSlot> slots,
          absl::Span<kernels::AttentionRun> runs) { rows_.Place(LayerIndex(layer), slots, runs); });
  rows_.Advance();  // of a lost step too: who keeps a ledger has counted it
  return status;
}

void CpuExecutor::ScoreResident() {
  scoring_.Clear();
  for (const StepRows::Segment& one : rows_.segments()) {
    if (one.segment->score_resident) scoring_.Add(one.sequence->table, one.segment->prompt);
  }
  if (scoring_.empty()) return;
  const auto start = std::chrono::steady_clock::now();
  scoring_.Run(*ops_, *threads_, transformer_.Angles(rows_.positions()), pool_);
  score_seconds_ += SecondsSince(start);
}

StepTicket CpuExecutor::Enqueue(const StepBatch& batch) {
  rows_.Begin(++steps_, transformer_.config());
  for (const bool prompt : {false, true}) {
    for (const StepSegment& segment : batch.segments) {
      if (segment.prompt == prompt) rows_.Add(segment, slots_.at(segment.slot));
    }
  }
  StepOutput output;
  if (rows_.count() > 0) {
    output.status = Forward();
    if (output.status.ok()) {
      ScoreResident();
      output.status = SampleAll(output);
    }
  }
  outputs_.push_back(std::move(output));
  return StepTicket(steps_);
}

absl::Status CpuExecutor::SampleAll(StepOutput& output) {
  const std::vector<const StepRows::Segment*> wanted = rows_.Wanted();
  output.outputs.resize(wanted.size());
  absl::Status status;
  for (size_t first = 0; first < wanted.size(); first += Transformer::kMaxLogitRows) {
    const size_t count = std::min<size_t>(Transformer::kMaxLogitRows, wanted.size() - first);
    status.Update(SampleSome({&wanted[first], count}, {&output.outputs[first], count}));
  }
  return status;
}

absl::Status CpuExecutor::SampleSome(absl::Span<const StepRows::Segment* const> wanted,
                                     absl::Span<SegmentOutput> outputs) {
  std::vector<uint32_t> rows;
  for (const StepRows::Segment* one : wanted) rows.push_back(one->first_row + one->rows - 1);
  const auto logits = transformer_.Logits(rows);
  if (!logits.ok()) return logits.status();
  if (logits->cols == 0) return absl::OkStatus();  // the leader samples
  const auto start = std::chrono::steady_clock::now();
  std::vector<absl::Status> statuses(wanted.size());
  threads_->ParallelFor(static_cast<int>(wanted.size()), [&](int task, int) {
    const StepRows::Segment& one = *wanted[task];
    const Position next(one.segment->first_position.value() + one.rows);
    statuses[task] =
        FillOutput(*one.segment, next, {logits->row(task), logits->cols}, outputs[task]);
  });
  absl::Status status;
  for (size_t i = 0; i < wanted.size(); ++i) {
    status.Update(statuses[i]);
    wanted[i]->sequence->last_sampled = outputs[i].token;
  }
  sample_seconds_ += SecondsSince(start);
  return status;
}

StepOutput CpuExecutor::Collect(StepTicket ticket) {
  ++collected_;
  FOLIO_CHECK(ticket.value() == collected_ && !outputs_.empty());
  StepOutput output = std::move(outputs_.front());
  outputs_.pop_front();
  return output;
}

ExecutorTimes CpuExecutor::times() const {
  ExecutorTimes times = transformer_.times();
  times.compact = compact_seconds_;
  times.sample = sample_seconds_;
  times.score += score_seconds_;
  return times;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> MakeCpuExecutor(
    std::shared_ptr<const ModelWeights> weights, std::unique_ptr<CpuOps> ops, int threads,
    const kernels::PoolView& pool, const CpuExecutorOptions& options) {
  if (absl::Status fit = CheckFit(weights->config, pool, threads, options.max_rows); !fit.ok())
    return fit;
  return std::make_unique<CpuExecutor>(std::move(weights), std::move(ops),
                                       std::make_unique<ThreadPool>(threads), pool, options);
}

absl::StatusOr<std::unique_ptr<Executor>> MakeCpuExecutor(const ModelSource& source,
                                                          std::unique_ptr<CpuOps> ops, int threads,
                                                          const kernels::PoolView& pool,
                                                          const CpuExecutorOptions& options) {
  if (absl::Status fit = CheckFit(source.config(), pool, threads, options.max_rows); !fit.ok())
    return fit;
  auto pool_of_threads = std::make_unique<ThreadPool>(threads);
  auto weights = LoadWeights(source, *ops, *pool_of_threads, options.progress);
  if (!weights.ok()) return weights.status();
  return std::make_unique<CpuExecutor>(*std::move(weights), std::move(ops),
                                       std::move(pool_of_threads), pool, options);
}

}  // namespace folio::model
