#include "services/model/tp/tp_executor.h"

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "services/base/check.h"
#include "services/base/steady_time.h"
#include "services/model/tp/rank_command.h"

namespace folio::model {
namespace {

class TpExecutor final : public Executor {
 public:
  TpExecutor(std::unique_ptr<Executor> own, collective::Collective* group,
             const TpExecutorOptions& options)
      : own_(std::move(own)), group_(group), options_(options) {
    FOLIO_CHECK(group_->leads());
    own_->tables().KeepEdits(true);
  }
  // No edit is ever valueless, so std::visit throws nothing.
  // NOLINTNEXTLINE(bugprone-exception-escape)
  ~TpExecutor() override {
    Note(LeaveCommand{});
    Tell();
    Await();
  }

  int pipeline_depth() const override { return own_->pipeline_depth(); }
  uint32_t max_rows() const override { return own_->max_rows(); }

  SequenceTables& tables() override { return own_->tables(); }

  StepTicket Enqueue(const StepBatch& batch) override;
  StepOutput Collect(StepTicket ticket) override;
  void Compact(SequenceSlot slot, const CompactAction& compact) override {
    Note(CompactCommand{slot, compact});
    if (!behind()) Tell();
    own_->Compact(slot, compact);
    if (!behind()) Await();
  }

  void Swap(const PageSwaps& swaps) override {
    Note(SwapCommand{swaps});
    if (!behind()) Tell();
    own_->Swap(swaps);
    if (!behind()) Await();
  }

  // Between steps the death of a rank shows only in the collective.
  absl::Status fault() const override { return fault_.ok() ? group_->Health() : fault_; }
  bool depends_on_others() const override { return true; }
  ExecutorTimes times() const override { return own_->times(); }

 private:
  SteadyTime deadline() const { return SteadyNow() + options_.timeout; }
  // Appends a command to the next message, after the table edits made before it. Once the group has
  // failed no rank reads messages, and edits are made on this rank alone.
  void Note(const RankCommand& command);
  // Sends the message.
  void Tell() {
    if (fault_.ok()) fault_ = group_->Broadcast(message_, deadline());
    message_.clear();
  }
  // Waits until all ranks have done what the last message said.
  void Await();
  // Ends the group if this rank's device has failed.
  void NoteOwn() {
    if (!fault_.ok() || own_->fault().ok()) return;
    fault_ = own_->fault();
    group_->Abort(fault_);
  }
  void AppendStep(StepCommand command) {
    if (options_.compare_tables) command.digest = BatchDigest(own_->tables(), command.batch);
    Note(command);
  }
  StepOutput Run(const StepBatch& batch);

  bool behind() const { return own_->pipeline_depth() > 0; }
  // Run in two halves, for devices that run behind the host.
  void Begin(const StepBatch& batch);
  StepOutput End();

  const std::unique_ptr<Executor> own_;
  collective::Collective* const group_;
  const TpExecutorOptions options_;
  std::string message_;
  absl::Status fault_;
  std::deque<StepOutput> outputs_;                   // of the steps not collected yet, or
  std::deque<std::optional<StepTicket>> under_way_;  // their tickets; of a lost one none
  uint64_t steps_ = 0;
  uint64_t collected_ = 0;
};

void TpExecutor::Note(const RankCommand& command) {
  if (!fault_.ok()) return own_->tables().KeepEdits(false);
  for (TableEdit& edit : own_->tables().TakeEdits()) {
    AppendEdit(std::move(edit), message_);
  }
  AppendCommand(command, message_);
}

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
    const std::optional<TokenId>& last = tables().state(segment.slot).last_sampled;
    FOLIO_CHECK(last.has_value());
    segment.tokens.push_back(*last);
  }
  AppendStep(command);
  Tell();
  if (!fault_.ok()) return {{}, fault_};
  StepOutput output = own_->Collect(own_->Enqueue(command.batch));
  Await();
  return fault_.ok() ? output : StepOutput{{}, fault_};
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
