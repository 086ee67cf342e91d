#include "services/model/cuda_executor.h"

#include <array>
#include <optional>
#include <utility>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/step.h"
#include "kernels/cuda/stream.h"
#include "services/common/check.h"
#include "services/model/cuda_graphs.h"
#include "services/model/cuda_parts.h"
#include "services/model/cuda_scoring.h"
#include "services/model/decode_shapes.h"
#include "services/model/pool_fit.h"
#include "services/model/slot_executor.h"
#include "services/model/timed.h"

namespace folio::model {
namespace {

namespace cuda = kernels::cuda;

// What one step needs of the host until it is done.
struct StepSpace {
  StepSpace(CudaParts& parts, cuda::Event done)
      : uploads(parts.memory), inputs(parts.memory, parts.inputs), done(std::move(done)) {}

  cuda::Uploads uploads;  // of the step, and of what is enqueued between the one before and it
  cuda::Uploads inputs;   // a padded step's arrays
  PlanSpace plans;
  SampledStep sampled;
  cuda::Event done;
  absl::Status status;  // of enqueueing it
};

class CudaExecutor final : public SlotExecutor {
 public:
  explicit CudaExecutor(std::unique_ptr<CudaParts> parts)
      : SlotExecutor(parts->pool.view),
        parts_(std::move(parts)),
        graphs_(parts_->memory, parts_->stream.get(), parts_->graphs) {}

  // What is under way ends before the memory goes.
  ~CudaExecutor() override { parts_->Wait(); }

  // Makes what steps need of the host.
  absl::Status MakeSpaces();

  int pipeline_depth() const override { return 1; }
  uint32_t max_rows() const override { return parts_->max_rows; }

  SlotId Acquire(kernels::ScoreKind score) override {
    const SlotId slot = SlotExecutor::Acquire(score);
    parts_->tables->Reset(slot);
    return slot;
  }
  void Compact(SlotId slot, const std::vector<std::vector<SlotIndex>>& keep,
               const std::vector<uint32_t>& spare) override;
  void DropBlocks(SlotId slot, const std::vector<std::optional<BlockIndex>>& block) override;

  StepTicket Enqueue(const StepBatch& batch) override;
  StepOutput Collect(StepTicket ticket) override;
  absl::Status fault() const override { return fault_; }
  const GraphCounts& graph_counts() const { return graphs_.counts(); }
  ExecutorTimes times() const override {
    ExecutorTimes times;
    times.other = seconds_;
    return times;
  }

 private:
  // One being filled, one behind it, and one whose results are being read.
  static constexpr uint64_t kSpaces = 3;

  // Of the step that is enqueued next.
  StepSpace& space() { return *spaces_[steps_ % kSpaces]; }
  // How many rows the step gets by padding; 0: it is none of decode rows alone.
  uint32_t PaddedTo() const;
  absl::Status Run(StepSpace& space);
  // From tokens to tokens: what a graph may be of.
  absl::Status Compute(const LaidStep& laid, const CudaTransformer::Plans& plans,
                       const SampledStep& sampled);
  absl::Status CompactOnDevice(const SlotTable& table,
                               const std::vector<std::vector<SlotIndex>>& keep);
  absl::Status Await(const cuda::Event& done) const {
    return parts_->exchange == nullptr ? done.Wait() : parts_->exchange->Await(done);
  }
  // Keeps a failure of the device; what does not fit is no such failure, but on a rank, whose
  // group has then done something else.
  absl::Status Note(absl::Status status) {
    const bool ends_group = parts_->exchange != nullptr && !status.ok();
    if (absl::IsInternal(status) || ends_group) fault_.Update(status);
    if (ends_group) parts_->exchange->Abort(status);
    return status;
  }

  std::unique_ptr<CudaParts> parts_;
  CudaGraphs graphs_;
  std::array<std::unique_ptr<StepSpace>, kSpaces> spaces_;

  StepRows rows_;  // of the step being enqueued
  CudaScoring scoring_;
  uint64_t steps_ = 0;
  uint64_t collected_ = 0;
  absl::Status fault_;
  double seconds_ = 0;
};

absl::Status CudaExecutor::MakeSpaces() {
  for (auto& space : spaces_) {
    auto done = cuda::Event::Create();
    if (!done.ok()) return done.status();
    space = std::make_unique<StepSpace>(*parts_, *std::move(done));
  }
  return absl::OkStatus();
}

absl::Status CudaExecutor::CompactOnDevice(const SlotTable& table,
                                           const std::vector<std::vector<SlotIndex>>& keep) {
  cuda::Uploads& uploads = space().uploads;
  std::vector<cuda::CompactRun> runs;
  for (uint32_t layer = 0; layer < keep.size(); ++layer) {
    const std::vector<uint32_t> survivors = table.Survivors(LayerIndex(layer), keep[layer]);
    const auto pages = uploads.Put(absl::MakeConstSpan(table.pages(LayerIndex(layer))));
    const auto kept = uploads.Put(absl::MakeConstSpan(survivors));
    runs.push_back({pages.data, kept.data, kept.size});
  }
  const auto on_device = uploads.Put(absl::MakeConstSpan(runs));
  if (absl::Status status = uploads.Flush(parts_->stream.get()); !status.ok()) return status;
  return cuda::Compact(parts_->stream.get(), on_device, parts_->pool);
}

void CudaExecutor::Compact(SlotId slot, const std::vector<std::vector<SlotIndex>>& keep,
                           const std::vector<uint32_t>& spare) {
  const Timed timed(seconds_);
  SlotTable& table = slots_.at(slot).table;
  FOLIO_CHECK(keep.size() == parts_->pool.view.geometry.num_layers);
  absl::Status status = cuda::BindDevice(parts_->device);
  if (status.ok()) status = CompactOnDevice(table, keep);
  // There is no step to fail for it, and the pages would hold something else than the tables say.
  fault_.Update(Note(status));
  table.Shrink(keep, spare);
  for (uint32_t layer = 0; layer < keep.size(); ++layer) {
    const LayerIndex of(layer);
    parts_->tables->Cut(slot, of, static_cast<uint32_t>(table.pages(of).size()));
  }
}

void CudaExecutor::DropBlocks(SlotId slot, const std::vector<std::optional<BlockIndex>>& block) {
  SlotExecutor::DropBlocks(slot, block);
  for (uint32_t layer = 0; layer < block.size(); ++layer) {
    if (block[layer].has_value())
      parts_->tables->Cut(slot, LayerIndex(layer), block[layer]->value());
  }
}

StepTicket CudaExecutor::Enqueue(const StepBatch& batch) {
  const Timed timed(seconds_);
  FOLIO_CHECK(steps_ - collected_ < kSpaces - 1);
  StepSpace& space = this->space();
  rows_.Begin(++steps_, parts_->weights->config);
  for (const bool prompt : {false, true}) {
    for (const StepSegment& segment : batch.segments) {
      if (segment.prompt == prompt) rows_.Add(segment, slots_.at(segment.slot));
    }
  }
  FOLIO_CHECK(rows_.count() <= parts_->max_rows);
  space.status = Note(Run(space));
  for (const StepRows::Segment* one : rows_.Wanted()) one->sequence->sampled_on_device = true;
  // Of a lost step too: what came before it is waited for.
  absl::Status counted =
      cuda::CountStep(parts_->stream.get(), parts_->counter.on_device<uint64_t>(), steps_);
  counted.Update(space.done.Record(parts_->stream.get()));
  space.status.Update(Note(counted));
  // The step that used it last was collected.
  this->space().uploads.Clear();
  this->space().inputs.Clear();
  return StepTicket(steps_);
}

uint32_t CudaExecutor::PaddedTo() const {
  const auto split = rows_.forward().split;
  const bool pads = split.prompt_rows == 0 && split.decode_rows <= kMostPaddedRows;
  return pads ? PaddedRows(split.decode_rows, parts_->max_rows) : 0;
}

absl::Status CudaExecutor::Run(StepSpace& space) {
  const cuda::Stream stream = parts_->stream.get();
  absl::Status status = cuda::BindDevice(parts_->device);  // before anything is allocated
  const uint32_t padded = PaddedTo();
  cuda::Uploads& inputs = padded > 0 ? space.inputs : space.uploads;
  auto laid = status.ok()
                  ? parts_->layout->Lay(rows_, padded, *parts_->tables, space.uploads, inputs)
                  : absl::StatusOr<LaidStep>(status);
  rows_.Advance();  // of a lost step too: who keeps a ledger has counted it
  if (!fault_.ok()) return fault_;
  if (!laid.ok()) return laid.status();
  scoring_.Prepare(rows_, parts_->pool.view.geometry.page_tokens, space.uploads);
  status = parts_->sampling->Prepare(rows_, padded, parts_->weights->config.vocab, inputs,
                                     space.sampled);
  if (!status.ok()) return status;
  if (rows_.count() == 0) return absl::OkStatus();
  const auto plans = parts_->transformer->Plan(*laid, space.plans);
  if (!plans.ok()) return plans.status();
  const auto compute = [&] { return Compute(*laid, *plans, space.sampled); };
  const auto run = [&] {
    return laid->padded && CudaSampling::HasShape(space.sampled)
               ? graphs_.Run(ShapeOf(*laid, *plans, *parts_->sampling), compute)
               : graphs_.Pass(compute);
  };
  return cuda::InOrder({[&] { return space.uploads.Flush(stream); },
                        [&] { return space.inputs.Flush(stream); },
                        [&] { return cuda::WriteTables(stream, laid->table_writes); }, run,
                        [&] { return scoring_.Run(stream, parts_->rope, parts_->pool); },
                        [&] { return parts_->sampling->Return(stream, space.sampled); }});
}

absl::Status CudaExecutor::Compute(const LaidStep& laid, const CudaTransformer::Plans& plans,
                                   const SampledStep& sampled) {
  const cuda::Stream stream = parts_->stream.get();
  const uint32_t page_tokens = parts_->pool.view.geometry.page_tokens;
  auto* ids = parts_->ids.as<uint32_t>();
  CudaTransformer& transformer = *parts_->transformer;
  return cuda::InOrder(
      {[&] { return cuda::LayRuns(stream, laid.runs, page_tokens); },
       [&] { return cuda::FeedTokens(stream, laid.ids, parts_->sampling->kept(), ids); },
       [&] { return transformer.Forward(laid, plans, *parts_->layout, ids); },
       [&] { return parts_->sampling->Run(transformer, stream, sampled); }});
}

StepOutput CudaExecutor::Collect(StepTicket ticket) {
  const Timed timed(seconds_);
  ++collected_;
  FOLIO_CHECK(ticket.value() == collected_ && collected_ <= steps_);
  StepSpace& space = *spaces_[(collected_ - 1) % kSpaces];
  StepOutput output;
  output.status = std::move(space.status);
  absl::Status bound = cuda::BindDevice(parts_->device);
  output.status.Update(Note(bound.ok() ? Await(space.done) : bound));
  if (!output.status.ok()) return output;
  FOLIO_CHECK(*static_cast<volatile uint64_t*>(parts_->counter.as<uint64_t>()) >= collected_);
  if (parts_->exchange == nullptr || parts_->exchange->leads()) space.sampled.Fill(output);
  return output;
}

}  // namespace

GraphCounts GraphsOf(const Executor& executor) {
  const auto* of = dynamic_cast<const CudaExecutor*>(&executor);
  return of != nullptr ? of->graph_counts() : GraphCounts{};
}

absl::StatusOr<std::unique_ptr<Executor>> MakeCudaExecutor(std::shared_ptr<CudaModel> model,
                                                           const cuda::DevicePool& pool,
                                                           const CudaExecutorOptions& options) {
  absl::Status fit = CheckFit(model->weights().config, pool.view, /*threads=*/1, options.max_rows);
  if (!fit.ok()) return fit;
  auto parts = CudaParts::Make(std::move(model), pool, options);
  if (!parts.ok()) return parts.status();
  auto executor = std::make_unique<CudaExecutor>(*std::move(parts));
  if (absl::Status status = executor->MakeSpaces(); !status.ok()) return status;
  return executor;
}

}  // namespace folio::model
