#include "services/model/tp_executor.h"

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "services/common/check.h"
#include "services/model/rank_command.h"

namespace folio::model {
namespace {

class TpExecutor final : public Executor {
 public:
  TpExecutor(std::unique_ptr<Executor> own, collective::Collective* group,
             const TpExecutorOptions& options)
      : own_(std::move(own)), group_(group), options_(options) {
    FOLIO_CHECK(group_->leads());
  }
  ~TpExecutor() override {
    Note(LeaveCommand{});
    Tell();
    Await();
  }

  int pipeline_depth() const override { return own_->pipeline_depth(); }
  uint32_t max_rows() const override { return own_->max_rows(); }

  SlotId Acquire(kernels::ScoreKind score) override {
    const SlotId slot = own_->Acquire(score);
    Note(AcquireCommand{slot, score});
    if (last_sampled_.size() <= slot.value()) last_sampled_.resize(slot.value() + 1);
    last_sampled_[slot.value()].reset();
    return slot;
  }
  void ExtendTables(SlotId slot, const std::vector<std::vector<PageRef>>& pages) override {
    own_->ExtendTables(slot, pages);
    Note(ExtendCommand{slot, pages});
  }
  void Restore(SlotId slot, const std::vector<std::vector<PageRef>>& pages,
               const std::vector<std::vector<PositionRun>>& positions) override {
    own_->Restore(slot, pages, positions);
    Note(RestoreCommand{slot, pages, positions});
  }
  void Compact(SlotId slot, const std::vector<std::vector<SlotIndex>>& keep,
               const std::vector<uint32_t>& spare) override {
    Note(CompactCommand{slot, keep, spare});
    if (!behind()) Tell();
    own_->Compact(slot, keep, spare);
    if (!behind()) Await();
  }
  void DropBlocks(SlotId slot, const std::vector<std::optional<BlockIndex>>& block) override {
    own_->DropBlocks(slot, block);
    Note(DropCommand{slot, block});
  }
  void Release(SlotId slot) override {
    own_->Release(slot);
    Note(ReleaseCommand{slot});
  }

  PageRef NewestPage(SlotId slot, LayerIndex layer) const override {
    return own_->NewestPage(slot, layer);
  }
  uint32_t resident(SlotId slot, LayerIndex layer) const override {
    return own_->resident(slot, layer);
  }
  uint32_t pages(SlotId slot, LayerIndex layer) const override { return own_->pages(slot, layer); }
  uint32_t free_tokens(SlotId slot) const override { return own_->free_tokens(slot); }
  uint64_t TableDigest(SlotId slot) const override { return own_->TableDigest(slot); }

  StepTicket Enqueue(const StepBatch& batch) override;
  StepOutput Collect(StepTicket ticket) override;

  // A rank that dies shows in no step while there is none.
  absl::Status fault() const override { return fault_.ok() ? group_->Health() : fault_; }
  bool depends_on_others() const override { return true; }
  ExecutorTimes times() const override { return own_->times(); }

 private:
  absl::Time deadline() const { return absl::Now() + options_.patience; }
  // Keeps a command for the next message; only while there is a group to hear it.
  void Note(const RankCommand& command) {
    if (fault_.ok()) AppendCommand(command, message_);
  }
  // Sends what was noted.
  void Tell() {
    if (fault_.ok()) fault_ = group_->Broadcast(message_, deadline());
    message_.clear();
  }
  // Until all ranks have done what they were told.
  void Await();
  // What a fault of the own device is to the group.
  void NoteOwn() {
    if (!fault_.ok() || own_->fault().ok()) return;
    fault_ = own_->fault();
    group_->Abort(fault_);
  }
  void AppendStep(StepCommand command) {
    if (options_.compare_tables) command.digest = BatchDigest(*own_, command.batch);
    Note(command);
  }
  StepOutput Run(const StepBatch& batch);

  bool behind() const { return own_->pipeline_depth() > 0; }
  // The same in two halves.
  void Begin(const StepBatch& batch);
  StepOutput End();

  const std::unique_ptr<Executor> own_;
  collective::Collective* const group_;
  const TpExecutorOptions options_;
  std::string message_;
  absl::Status fault_;
  std::vector<std::optional<TokenId>> last_sampled_;  // by slot
  std::deque<StepOutput> outputs_;                    // of the steps not collected yet, or
  std::deque<std::optional<StepTicket>> under_way_;   // their tickets; of a lost one none
  uint64_t steps_ = 0;
  uint64_t collected_ = 0;
};

void TpExecutor::Await() {
  if (!fault_.ok()) return;
  const std::vector<size_t> sizes(group_->size(), 1);
  std::vector<std::byte> done(group_->size());
  fault_ = group_->Gather({done.data(), 1}, sizes, absl::MakeSpan(done), deadline());
}

StepOutput TpExecutor::Run(const StepBatch& batch) {
  StepCommand command{batch, std::nullopt};
  // The others do not know what was sampled.
  for (StepSegment& segment : command.batch.segments) {
    if (!segment.tokens.empty()) continue;
    const std::optional<TokenId>& last = last_sampled_.at(segment.slot.value());
    FOLIO_CHECK(last.has_value());
    segment.tokens.push_back(*last);
  }
  AppendStep(command);
  Tell();
  if (!fault_.ok()) return {{}, fault_};
  StepOutput output = own_->Collect(own_->Enqueue(command.batch));
  Await();
  if (!fault_.ok()) return {{}, fault_};
  for (const SegmentOutput& one : output.outputs) {
    if (output.status.ok()) last_sampled_.at(one.slot.value()) = one.token;
  }
  return output;
}

void TpExecutor::Begin(const StepBatch& batch) {
  AppendStep({batch, std::nullopt});
  Tell();
  under_way_.emplace_back();
  if (!fault_.ok()) return;
  under_way_.back() = own_->Enqueue(batch);
  NoteOwn();
}

StepOutput TpExecutor::End() {
  const std::optional<StepTicket> ticket = under_way_.front();
  under_way_.pop_front();
  Note(CollectCommand{});
  Tell();
  if (!fault_.ok() || !ticket.has_value()) return {{}, fault_};
  StepOutput output = own_->Collect(*ticket);
  NoteOwn();
  Await();
  return fault_.ok() ? output : StepOutput{{}, fault_};
}

StepTicket TpExecutor::Enqueue(const StepBatch& batch) {
  if (behind()) {
    Begin(batch);
  } else {
    outputs_.push_back(Run(batch));
  }
  return StepTicket(++steps_);
}

StepOutput TpExecutor::Collect(StepTicket ticket) {
  ++collected_;
  FOLIO_CHECK(ticket.value() == collected_ && collected_ <= steps_);
  if (behind()) return End();
  StepOutput output = std::move(outputs_.front());
  outputs_.pop_front();
  return output;
}

}  // namespace

std::unique_ptr<Executor> MakeTpExecutor(std::unique_ptr<Executor> own,
                                         collective::Collective* group,
                                         const TpExecutorOptions& options) {
  return std::make_unique<TpExecutor>(std::move(own), group, options);
}

}  // namespace folio::model
