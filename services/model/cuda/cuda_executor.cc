#include "services/model/cuda/cuda_executor.h"

#include <array>
#include <optional>
#include <utility>

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/ops/step.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/base/check.h"
#include "services/model/cuda/cuda_executor_state.h"
#include "services/model/cuda/cuda_graphs.h"
#include "services/model/cuda/cuda_scoring.h"
#include "services/model/cuda/decode_shapes.h"
#include "services/model/executor/pool_fit.h"
#include "services/model/executor/scoped_timer.h"
#include "services/model/executor/sequence_tables.h"

namespace folio::model {
namespace {

namespace cuda = kernels::cuda;

// StepWorkspace is the host memory that one step needs until it is done.
struct StepWorkspace {
  StepWorkspace(CudaExecutorState& state, cuda::Event done)
      : uploads(state.memory), inputs(state.memory, state.inputs), done(std::move(done)) {}

  cuda::Uploads uploads;  // of the step, and of compactions since the step before it
  cuda::Uploads inputs;   // a padded step's arrays
  AttentionWorkspace plans;
  SampledStep sampled;
  cuda::Event done;
  absl::Status status;  // of enqueueing it
};

class CudaExecutor final : public Executor {
 public:
  explicit CudaExecutor(std::unique_ptr<CudaExecutorState> state)
      : tables_(state->pool.view.geometry, state->pool.view.num_pages),
        state_(std::move(state)),
        graphs_(state_->memory, state_->stream.get(), state_->graphs, state_->communicator.get()),
        scoring_(state_->weights->config) {}

  // Steps in flight must end before the memory is freed.
  ~CudaExecutor() override { state_->Wait(); }

  // Allocates the steps' workspaces.
  absl::Status MakeWorkspaces();

  int pipeline_depth() const override { return 1; }
  uint32_t max_rows() const override { return state_->max_rows; }

  SequenceTables& tables() override { return tables_; }

  StepTicket Enqueue(const StepBatch& batch) override;
  StepOutput Collect(StepTicket ticket) override;
  void Compact(SequenceSlot slot, const CompactAction& compact) override;
  void Swap(const PageSwaps& swaps) override;
  absl::Status fault() const override { return fault_; }
  const GraphCounts& graph_counts() const { return graphs_.counts(); }
  ExecutorTimes times() const override {
    ExecutorTimes times;
    times.other = seconds_;
    return times;
  }

 private:
  // One being filled, one behind it, and one whose results are being read.
  static constexpr uint64_t kWorkspaces = 3;

  // The workspace of the step that is enqueued next.
  StepWorkspace& workspace() { return *workspaces_[steps_ % kWorkspaces]; }
  // The number of rows that the step is padded to, or 0 if it is not padded because it has prompt
  // rows or is too large.
  uint32_t PaddedTo() const;
  absl::Status Run(StepWorkspace& workspace);
  // Enqueues the part of a step that a graph may hold, from fed tokens to sampled tokens.
  absl::Status Compute(const StepInputs& laid, const CudaTransformer::Plans& plans,
                       const SampledStep& sampled);
  absl::Status SwapOnDevice(const PageSwaps& swaps);
  absl::Status CompactOnDevice(const BlockTables& table, const CompactAction& compact);
  absl::Status Await(const cuda::Event& done) const {
    return state_->communicator == nullptr ? done.Wait() : state_->communicator->Await(done);
  }
  // Keeps a failure of the device as the executor's fault. A lack of memory fails one step only,
  // except on a rank: the other ranks have enqueued that step and wait for this one.
  absl::Status Note(absl::Status status) {
    const bool ends_group = state_->communicator != nullptr && !status.ok();
    if (absl::IsInternal(status) || ends_group) fault_.Update(status);
    if (ends_group) state_->communicator->Abort(status);
    return status;
  }

  SequenceTables tables_;
  std::unique_ptr<CudaExecutorState> state_;
  CudaGraphs graphs_;
  std::array<std::unique_ptr<StepWorkspace>, kWorkspaces> workspaces_;

  StepRows rows_;  // of the step being enqueued
  CudaScoring scoring_;
  uint64_t steps_ = 0;
  uint64_t collected_ = 0;
  absl::Status fault_;
  double seconds_ = 0;
};

absl::Status CudaExecutor::MakeWorkspaces() {
  for (auto& workspace : workspaces_) {
    auto done = cuda::Event::Create();
    if (!done.ok()) return done.status();
    workspace = std::make_unique<StepWorkspace>(*state_, *std::move(done));
  }
  return absl::OkStatus();
}

absl::Status CudaExecutor::CompactOnDevice(const BlockTables& table, const CompactAction& compact) {
  cuda::Uploads& uploads = workspace().uploads;
  std::vector<cuda::CompactItem> items;
  for (uint32_t l = 0; l < compact.keep.size(); ++l) {
    const LayerIndex layer(l);
    const std::vector<uint32_t> survivors = table.Survivors(layer, compact.keep[l]);
    const auto pages = uploads.Put(absl::MakeConstSpan(table.layer(layer).pages));
    const auto kept = uploads.Put(absl::MakeConstSpan(survivors));
    items.push_back({pages.data, kept.data, kept.size});
  }
  const auto on_device = uploads.Put(absl::MakeConstSpan(items));
  if (absl::Status status = uploads.Flush(state_->stream.get()); !status.ok()) return status;
  return cuda::Compact(state_->stream.get(), on_device, state_->pool);
}

void CudaExecutor::Compact(SequenceSlot slot, const CompactAction& compact) {
  const ScopedTimer timer(seconds_);
  BlockTables& table = tables_.state(slot).table;
  FOLIO_CHECK(compact.keep.size() == state_->pool.view.geometry.num_layers);
  absl::Status status = cuda::BindDevice(state_->device);
  if (status.ok()) status = CompactOnDevice(table, compact);
  // A failure ends the executor. No step could report it, and the pages would not hold what the
  // tables say.
  fault_.Update(Note(status));
  table.Compact(compact);
}

absl::Status CudaExecutor::SwapOnDevice(const PageSwaps& swaps) {
  const cuda::Stream stream = state_->stream.get();
  const kernels::PoolView& pool = state_->pool.view;
  const size_t bytes = pool.geometry.page_bytes();
  for (const PageSwap& swap : swaps.pages) {
    // The board is in memory of the host. All steps that wrote these scores are done, and none that
    // reads them is enqueued, so that the host can copy them now.
    CopyScores(pool, swaps.out, swap);
    std::byte* slot = pool.swap_page(swap.slot.value());
    void* page = pool.keys(swap.page.value());
    absl::Status status = swaps.out ? cuda::CopyToHost(stream, slot, page, bytes)
                                    : cuda::CopyToDevice(stream, page, slot, bytes);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void CudaExecutor::Swap(const PageSwaps& swaps) {
  const ScopedTimer timer(seconds_);
  absl::Status status = cuda::BindDevice(state_->device);
  if (status.ok()) status = SwapOnDevice(swaps);
  // A failure ends the executor, as one of Compact does.
  fault_.Update(Note(status));
}

StepTicket CudaExecutor::Enqueue(const StepBatch& batch) {
  const ScopedTimer timer(seconds_);
  FOLIO_CHECK(steps_ - collected_ < kWorkspaces - 1);
  StepWorkspace& workspace = this->workspace();
  rows_.Begin(++steps_, state_->weights->config);
  for (const bool prompt : {false, true}) {
    for (const StepSegment& segment : batch.segments) {
      if (segment.prompt == prompt) rows_.Add(segment, tables_.state(segment.slot));
    }
  }
  FOLIO_CHECK(rows_.count() <= state_->max_rows);
  workspace.status = Note(Run(workspace));
  for (const StepRows::Segment* one : rows_.Wanted()) one->sequence->sampled_on_device = true;
  // Also after a lost step, because its Collect waits for the steps before it.
  absl::Status counted =
      cuda::CountStep(state_->stream.get(), state_->counter.on_device<uint64_t>(), steps_);
  counted.Update(workspace.done.Record(state_->stream.get()));
  workspace.status.Update(Note(counted));
  // The step that used this workspace last has been collected.
  this->workspace().uploads.Clear();
  this->workspace().inputs.Clear();
  return StepTicket(steps_);
}

uint32_t CudaExecutor::PaddedTo() const {
  const auto split = rows_.forward().split;
  const bool pads = split.prompt_rows == 0 && split.decode_rows <= kMaxPaddedRows;
  return pads ? PaddedRows(split.decode_rows, state_->max_rows) : 0;
}

absl::Status CudaExecutor::Run(StepWorkspace& workspace) {
  const cuda::Stream stream = state_->stream.get();
  absl::Status status = cuda::BindDevice(state_->device);  // before anything is allocated
  const uint32_t padded = PaddedTo();
  cuda::Uploads& inputs = padded > 0 ? workspace.inputs : workspace.uploads;
  auto laid = status.ok() ? state_->layout->Build(rows_, padded, *state_->device_tables,
                                                  workspace.uploads, inputs)
                          : absl::StatusOr<StepInputs>(status);
  // Also when the step is lost: every enqueued step advances the tables, so that those of all ranks
  // stay equal whichever of them has failed.
  const std::vector<uint32_t> uncleared = rows_.TakeUncleared();
  rows_.Advance();
  if (!fault_.ok()) return fault_;
  if (!laid.ok()) return laid.status();
  scoring_.Prepare(rows_, state_->pool.view.geometry.page_tokens, workspace.uploads);
  status = state_->sampling->Prepare(rows_, padded, state_->weights->config.vocab,
                                     workspace.uploads, inputs, workspace.sampled);
  if (!status.ok()) return status;
  if (rows_.count() == 0) return absl::OkStatus();
  const auto cleared = workspace.uploads.Put(absl::MakeConstSpan(uncleared));
  const auto plans = state_->transformer->Plan(*laid, workspace.plans);
  if (!plans.ok()) return plans.status();
  const auto compute = [&] { return Compute(*laid, *plans, workspace.sampled); };
  const auto run = [&] {
    return laid->padded && CudaSampling::HasShape(workspace.sampled)
               ? graphs_.Run(ShapeOf(*laid, *plans, *state_->sampling), compute)
               : graphs_.Pass(compute);
  };
  return cuda::RunAll({[&] { return workspace.uploads.Flush(stream); },
                       [&] { return workspace.inputs.Flush(stream); },
                       [&] { return cuda::Clear(stream, cleared, state_->pool); },
                       [&] { return cuda::WriteTables(stream, laid->table_writes); }, run,
                       [&] { return scoring_.Run(stream, state_->rope, state_->pool); },
                       [&] { return state_->sampling->Return(stream, workspace.sampled); }});
}

absl::Status CudaExecutor::Compute(const StepInputs& laid, const CudaTransformer::Plans& plans,
                                   const SampledStep& sampled) {
  const cuda::Stream stream = state_->stream.get();
  const uint32_t page_tokens = state_->pool.view.geometry.page_tokens;
  auto* ids = state_->ids.as<uint32_t>();
  CudaTransformer& transformer = *state_->transformer;
  return cuda::RunAll(
      {[&] { return cuda::PlaceItems(stream, laid.runs, page_tokens); },
       [&] { return cuda::FeedTokens(stream, laid.ids, state_->sampling->kept(), ids); },
       [&] { return transformer.Forward(laid, plans, *state_->layout, ids); },
       [&] { return state_->sampling->Run(transformer, stream, sampled); }});
}

StepOutput CudaExecutor::Collect(StepTicket ticket) {
  const ScopedTimer timer(seconds_);
  ++collected_;
  FOLIO_CHECK(ticket.value() == collected_ && collected_ <= steps_);
  StepWorkspace& workspace = *workspaces_[(collected_ - 1) % kWorkspaces];
  StepOutput output;
  output.status = std::move(workspace.status);
  absl::Status bound = cuda::BindDevice(state_->device);
  output.status.Update(Note(bound.ok() ? Await(workspace.done) : bound));
  if (!output.status.ok()) return output;
  FOLIO_CHECK(*static_cast<volatile uint64_t*>(state_->counter.as<uint64_t>()) >= collected_);
  if (state_->communicator == nullptr || state_->communicator->leads())
    workspace.sampled.Fill(output);
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
  auto state = CudaExecutorState::Make(std::move(model), pool, options);
  if (!state.ok()) return state.status();
  auto executor = std::make_unique<CudaExecutor>(*std::move(state));
  if (absl::Status status = executor->MakeWorkspaces(); !status.ok()) return status;
  return executor;
}

}  // namespace folio::model
