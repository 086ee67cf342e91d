#include "services/model/cpu_executor.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "services/common/check.h"
#include "services/model/pool_fit.h"
#include "services/model/resident_scoring.h"
#include "services/model/segment_output.h"
#include "services/model/slot_table.h"
#include "services/model/transformer.h"

namespace folio::model {
namespace {

using kernels::cpu::CpuOps;
using kernels::cpu::ThreadPool;

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(std::shared_ptr<const ModelWeights> weights, std::unique_ptr<CpuOps> ops,
              std::unique_ptr<ThreadPool> threads, const kernels::PoolView& pool, uint32_t max_rows)
      : ops_(std::move(ops)),
        threads_(std::move(threads)),
        pool_(pool),
        max_rows_(max_rows),
        transformer_(std::move(weights), *ops_, *threads_, pool, max_rows) {}

  int pipeline_depth() const override { return 0; }
  uint32_t max_rows() const override { return max_rows_; }

  SlotId Acquire(kernels::ScoreKind score) override;
  void ExtendTables(SlotId slot, const std::vector<std::vector<PageRef>>& pages) override {
    sequence(slot).table.Extend(pages);
  }
  void Compact(SlotId slot, const std::vector<std::vector<SlotIndex>>& keep,
               const std::vector<uint32_t>& spare) override;
  void DropBlocks(SlotId slot, const std::vector<std::optional<BlockIndex>>& block) override {
    sequence(slot).table.DropBlocks(block);
  }
  void Release(SlotId slot) override;

  PageRef NewestPage(SlotId slot, LayerIndex layer) const override {
    return sequence(slot).table.NewestPage(layer);
  }
  uint32_t resident(SlotId slot, LayerIndex layer) const override {
    FOLIO_CHECK(layer.value() < pool_.geometry.num_layers);
    return sequence(slot).table.resident(layer);
  }
  uint32_t pages(SlotId slot, LayerIndex layer) const override {
    FOLIO_CHECK(layer.value() < pool_.geometry.num_layers);
    return static_cast<uint32_t>(sequence(slot).table.pages(layer).size());
  }
  uint32_t free_tokens(SlotId slot) const override { return sequence(slot).table.free_tokens(); }

  StepTicket Enqueue(const StepBatch& batch) override;
  StepOutput Collect(StepTicket ticket) override;
  ExecutorTimes times() const override;

 private:
  struct Sequence {
    SlotTable table;
    std::optional<TokenId> last_sampled;
    uint64_t last_step = 0;  // that it was part of
  };
  // One segment's rows in the batch, decode first.
  struct Placed {
    const StepSegment* segment;
    Sequence* sequence;
    uint32_t first_row;
    uint32_t rows;
  };

  Sequence& sequence(SlotId slot) {
    FOLIO_CHECK(slot.value() < sequences_.size());
    std::optional<Sequence>& held = sequences_[slot.value()];
    FOLIO_CHECK(held.has_value());
    return *held;
  }
  const Sequence& sequence(SlotId slot) const {
    return const_cast<CpuExecutor*>(this)->sequence(slot);
  }

  void AddRows(const StepSegment& segment);
  void Forward(uint32_t decode_rows);
  void ScoreResident();
  void SampleAll(const StepBatch& batch, StepOutput& output);

  std::unique_ptr<CpuOps> ops_;
  std::unique_ptr<ThreadPool> threads_;
  kernels::PoolView pool_;
  uint32_t max_rows_;
  Transformer transformer_;
  std::vector<std::optional<Sequence>> sequences_;  // by slot
  uint64_t steps_ = 0;
  uint64_t collected_ = 0;
  std::deque<StepOutput> outputs_;  // of the steps not collected yet
  double compact_seconds_ = 0;
  double sample_seconds_ = 0;
  double score_seconds_ = 0;

  // Of the step being run.
  std::vector<Placed> placed_;
  std::vector<uint32_t> ids_;
  std::vector<ScoringRows> windows_;
  ResidentScoring scoring_;
  uint32_t positions_ = 0;
};

SlotId CpuExecutor::Acquire(kernels::ScoreKind score) {
  Sequence fresh{SlotTable(pool_, score), std::nullopt, 0};
  for (uint32_t i = 0; i < sequences_.size(); ++i) {
    if (!sequences_[i].has_value()) {
      sequences_[i] = std::move(fresh);
      return SlotId(i);
    }
  }
  sequences_.emplace_back(std::move(fresh));
  return SlotId(static_cast<uint32_t>(sequences_.size() - 1));
}

void CpuExecutor::Release(SlotId slot) {
  sequence(slot);  // checks that it is held
  sequences_[slot.value()].reset();
}

void CpuExecutor::Compact(SlotId slot, const std::vector<std::vector<SlotIndex>>& keep,
                          const std::vector<uint32_t>& spare) {
  const auto start = std::chrono::steady_clock::now();
  SlotTable& table = sequence(slot).table;
  FOLIO_CHECK(keep.size() == pool_.geometry.num_layers);
  threads_->ParallelFor(static_cast<int>(keep.size()),
                        [&](int task, int) { table.Gather(LayerIndex(task), keep[task]); });
  table.Shrink(keep, spare);
  compact_seconds_ += SecondsSince(start);
}

void CpuExecutor::AddRows(const StepSegment& segment) {
  Sequence& owner = sequence(segment.slot);
  FOLIO_CHECK(owner.last_step != steps_);  // one segment per slot and step
  owner.last_step = steps_;
  const auto first_row = static_cast<uint32_t>(ids_.size());
  if (segment.tokens.empty()) {
    FOLIO_CHECK(!segment.prompt && owner.last_sampled.has_value());
    ids_.push_back(owner.last_sampled->value());
  }
  for (const TokenId token : segment.tokens) ids_.push_back(token.value());
  const uint32_t rows = static_cast<uint32_t>(ids_.size()) - first_row;
  FOLIO_CHECK(segment.prompt || rows == 1);
  FOLIO_CHECK(segment.want_output || !segment.target.has_value());
  FOLIO_CHECK(!segment.target.has_value() || segment.target->value() < transformer_.config().vocab);
  FOLIO_CHECK(rows <= owner.table.free_tokens());
  const kernels::ScoreKind kind = owner.table.score();
  FOLIO_CHECK(!segment.score_resident || ScoredOnDemand(kind));
  if (segment.window.queries > 0) {
    FOLIO_CHECK(segment.prompt && segment.window.queries <= rows);
    FOLIO_CHECK(segment.window.plane == (kind == kernels::ScoreKind::kWindowAttention ? 0U : 1U));
    windows_.push_back({static_cast<uint32_t>(placed_.size()), segment.window});
  }
  const uint64_t positions = uint64_t{segment.first_position.value()} + rows;
  FOLIO_CHECK(positions <= transformer_.config().context);
  positions_ = std::max(positions_, static_cast<uint32_t>(positions));
  placed_.push_back({&segment, &owner, first_row, rows});
}

void CpuExecutor::Forward(uint32_t decode_rows) {
  const auto rows = static_cast<uint32_t>(ids_.size());
  FOLIO_CHECK(rows <= max_rows_);
  for (const uint32_t id : ids_) FOLIO_CHECK(id < transformer_.config().vocab);
  const ForwardRows forward = {{decode_rows, rows - decode_rows},
                               ids_,
                               positions_,
                               static_cast<uint32_t>(placed_.size()),
                               windows_};
  transformer_.Forward(forward, [&](uint32_t layer, absl::Span<kernels::AppendSlot> slots,
                                    absl::Span<kernels::AttentionRun> runs) {
    for (size_t i = 0; i < placed_.size(); ++i) {
      const Placed& p = placed_[i];
      p.sequence->table.Place(LayerIndex(layer), p.segment->first_position, p.rows,
                              &slots[p.first_row]);
      runs[i] = p.sequence->table.Run(LayerIndex(layer), p.first_row, p.rows);
    }
  });
  for (const Placed& p : placed_) p.sequence->table.Advance(p.segment->first_position, p.rows);
}

void CpuExecutor::ScoreResident() {
  scoring_.Clear();
  for (const Placed& p : placed_) {
    if (p.segment->score_resident) scoring_.Add(p.sequence->table, p.segment->prompt);
  }
  if (scoring_.empty()) return;
  const auto start = std::chrono::steady_clock::now();
  scoring_.Run(*ops_, *threads_, transformer_.Angles(positions_), pool_);
  score_seconds_ += SecondsSince(start);
}

StepTicket CpuExecutor::Enqueue(const StepBatch& batch) {
  ++steps_;
  placed_.clear();
  ids_.clear();
  windows_.clear();
  positions_ = 0;
  for (const StepSegment& segment : batch.segments) {
    if (!segment.prompt) AddRows(segment);
  }
  const auto decode_rows = static_cast<uint32_t>(ids_.size());
  for (const StepSegment& segment : batch.segments) {
    if (segment.prompt) AddRows(segment);
  }
  StepOutput output;
  if (!ids_.empty()) {
    Forward(decode_rows);
    ScoreResident();
    SampleAll(batch, output);
  }
  outputs_.push_back(std::move(output));
  return StepTicket(steps_);
}

void CpuExecutor::SampleAll(const StepBatch& batch, StepOutput& output) {
  // In the order of the batch's segments.
  std::vector<const Placed*> wanted;
  for (const Placed& p : placed_) {
    if (p.segment->want_output) wanted.push_back(&p);
  }
  std::sort(wanted.begin(), wanted.end(),
            [](const Placed* a, const Placed* b) { return a->segment < b->segment; });
  output.outputs.resize(wanted.size());
  std::vector<absl::Status> status(wanted.size());
  for (size_t first = 0; first < wanted.size(); first += Transformer::kMaxLogitRows) {
    const size_t count = std::min<size_t>(Transformer::kMaxLogitRows, wanted.size() - first);
    std::vector<uint32_t> rows;
    for (size_t i = first; i < first + count; ++i) {
      rows.push_back(wanted[i]->first_row + wanted[i]->rows - 1);
    }
    const kernels::Matrix<const float> logits = transformer_.Logits(rows);
    const auto start = std::chrono::steady_clock::now();
    threads_->ParallelFor(static_cast<int>(count), [&](int task, int) {
      const Placed& p = *wanted[first + task];
      const Position next(p.segment->first_position.value() + p.rows);
      status[first + task] = FillOutput(*p.segment, next, {logits.row(task), logits.cols},
                                        output.outputs[first + task]);
    });
    sample_seconds_ += SecondsSince(start);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    output.status.Update(status[i]);
    wanted[i]->sequence->last_sampled = output.outputs[i].token;
  }
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
                                       std::make_unique<ThreadPool>(threads), pool,
                                       options.max_rows);
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
                                       std::move(pool_of_threads), pool, options.max_rows);
}

}  // namespace folio::model
