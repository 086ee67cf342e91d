#include "services/model/cpu/cpu_executor.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "services/base/check.h"
#include "services/model/cpu/transformer.h"
#include "services/model/executor/pool_fit.h"
#include "services/model/executor/resident_scoring.h"
#include "services/model/executor/scoped_timer.h"
#include "services/model/executor/segment_output.h"
#include "services/model/executor/sequence_tables.h"
#include "services/model/executor/step_rows.h"

namespace folio::model {
namespace {

using kernels::ThreadPool;
using kernels::cpu::CpuOps;

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(std::shared_ptr<const ModelWeights> weights, std::unique_ptr<CpuOps> ops,
              std::unique_ptr<ThreadPool> threads, const kernels::PoolView& pool,
              const CpuExecutorOptions& options)
      : tables_(pool.geometry, pool.num_pages),
        ops_(std::move(ops)),
        threads_(std::move(threads)),
        pool_(pool),
        max_rows_(options.max_rows),
        transformer_(std::move(weights), *ops_, *threads_, pool, max_rows_, options.group),
        scoring_(transformer_.config().others) {}

  int pipeline_depth() const override { return 0; }
  uint32_t max_rows() const override { return max_rows_; }

  SequenceTables& tables() override { return tables_; }

  StepTicket Enqueue(const StepBatch& batch) override;
  StepOutput Collect(StepTicket ticket) override;
  void Compact(SequenceSlot slot, const CompactAction& compact) override;
  void Swap(const PageSwaps& swaps) override;
  ExecutorTimes times() const override;

 private:
  // Those of the step that other tenants' tokens may be in.
  void ClearPages();
  absl::Status Forward();
  void ScoreResident();
  absl::Status SampleAll(StepOutput& output);
  absl::Status SampleSome(absl::Span<const StepRows::Segment* const> wanted,
                          absl::Span<SegmentOutput> outputs);

  SequenceTables tables_;
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

void CpuExecutor::Compact(SequenceSlot slot, const CompactAction& compact) {
  const ScopedTimer timer(compact_seconds_);
  BlockTables& table = tables_.state(slot).table;
  FOLIO_CHECK(compact.keep.size() == pool_.geometry.num_layers);
  threads_->ParallelFor(static_cast<int>(compact.keep.size()), [&](int task, int) {
    const LayerIndex layer(task);
    kernels::cpu::CompactLayer(pool_, table.layer(layer).pages,
                               table.Survivors(layer, compact.keep[task]));
  });
  table.Compact(compact);
}

void CpuExecutor::Swap(const PageSwaps& swaps) {
  threads_->ParallelFor(static_cast<int>(swaps.pages.size()), [&](int task, int) {
    CopyPage(pool_, swaps.out, swaps.pages[task]);
    CopyScores(pool_, swaps.out, swaps.pages[task]);
  });
}

void CpuExecutor::ClearPages() {
  const std::vector<uint32_t> pages = rows_.TakeUncleared();
  threads_->ParallelFor(static_cast<int>(pages.size()),
                        [&](int task, int) { kernels::cpu::ClearPage(pool_, pages[task]); });
}

absl::Status CpuExecutor::Forward() {
  FOLIO_CHECK(rows_.count() <= max_rows_);
  absl::Status status = transformer_.Forward(
      rows_.forward(), [&](uint32_t layer, absl::Span<kernels::AppendSlot> slots,
                           absl::Span<kernels::AttentionItem> runs) {
        rows_.Place(LayerIndex(layer), slots, runs);
      });
  // Also after a failed pass: every enqueued step advances the tables, so that those of all ranks
  // stay equal whichever of them has failed.
  rows_.Advance();
  return status;
}

void CpuExecutor::ScoreResident() {
  scoring_.Clear();
  for (const StepRows::Segment& one : rows_.segments()) {
    const StepSegment& segment = *one.segment;
    if (!segment.score_resident) continue;
    scoring_.Add(one.sequence->table, segment.prompt, segment.scored_layers);
  }
  if (scoring_.empty()) return;
  const ScopedTimer timer(score_seconds_);
  // All layers of all sequences at once, which is enough tasks for any number of threads.
  ops_->ScoreResident(*threads_, scoring_.resident(), pool_);
  for (const bool others : {false, true}) {
    const auto items = others ? scoring_.unrotated_others() : scoring_.unrotated();
    if (items.empty()) continue;
    ops_->ScoreUnrotated(*threads_, items, transformer_.Angles(rows_.positions(), others), pool_);
  }
}

StepTicket CpuExecutor::Enqueue(const StepBatch& batch) {
  rows_.Begin(++steps_, transformer_.config());
  for (const bool prompt : {false, true}) {
    for (const StepSegment& segment : batch.segments) {
      if (segment.prompt == prompt) rows_.Add(segment, tables_.state(segment.slot));
    }
  }
  ClearPages();
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
  const ScopedTimer timer(sample_seconds_);
  threads_->ParallelFor(static_cast<int>(wanted.size()), [&](int task, int) {
    const StepRows::Segment& one = *wanted[task];
    const Position next(one.segment->first_position.value() + one.rows);
    const TokenId last = one.sequence->last_sampled.value_or(TokenId(0));
    FillOutput(*one.segment, next, last, {logits->row(task), logits->cols}, outputs[task]);
  });
  // A step that was enqueued already may feed the token of an output that failed. It is 0 there.
  for (size_t i = 0; i < wanted.size(); ++i) {
    wanted[i]->sequence->last_sampled = outputs[i].token;
  }
  return absl::OkStatus();
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
  auto weights = LoadWeights(source, *ops, *pool_of_threads, options.progress, options.held);
  if (!weights.ok()) return weights.status();
  return std::make_unique<CpuExecutor>(*std::move(weights), std::move(ops),
                                       std::move(pool_of_threads), pool, options);
}

}  // namespace folio::model
