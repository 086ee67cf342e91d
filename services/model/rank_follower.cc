#include "services/model/rank_follower.h"

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/model/rank_command.h"

namespace folio::model {
namespace {

// A leader that has said something waits for it to be done.
constexpr absl::Duration kAnswer = absl::Minutes(10);

class Follower {
 public:
  Follower(Executor& own, collective::Collective& group) : own_(own), group_(group) {}

  absl::Status Do(const AcquireCommand& command) {
    const SlotId slot = own_.Acquire(command.score);
    if (slot == command.slot) return absl::OkStatus();
    return Differs(absl::StrCat("slot ", slot.value(), " is the leader's ", command.slot.value()));
  }
  absl::Status Do(const ExtendCommand& command) {
    own_.ExtendTables(command.slot, command.pages);
    return absl::OkStatus();
  }
  absl::Status Do(const RestoreCommand& command) {
    own_.Restore(command.slot, command.pages, command.positions);
    return absl::OkStatus();
  }
  absl::Status Do(const CompactCommand& command) {
    own_.Compact(command.slot, command.keep, command.spare);
    return absl::OkStatus();
  }
  absl::Status Do(const DropCommand& command) {
    own_.DropBlocks(command.slot, command.block);
    return absl::OkStatus();
  }
  absl::Status Do(const ReleaseCommand& command) {
    own_.Release(command.slot);
    return absl::OkStatus();
  }
  absl::Status Do(const StepCommand& command) {
    if (command.digest.has_value() && *command.digest != BatchDigest(own_, command.batch)) {
      return Differs("its block tables are not the leader's");
    }
    const StepTicket ticket = own_.Enqueue(command.batch);
    if (own_.pipeline_depth() == 0) return own_.Collect(ticket).status;
    under_way_.push_back(ticket);
    return own_.fault();
  }
  absl::Status Do(const CollectCommand&) {
    answers_ = true;
    if (under_way_.empty()) return Differs("the leader waits for a step that is none here");
    const StepTicket ticket = under_way_.front();
    under_way_.pop_front();
    return own_.Collect(ticket).status;
  }
  absl::Status Do(const LeaveCommand&) {
    answers_ = leaves_ = true;
    return absl::OkStatus();
  }

  bool leaves() const { return leaves_; }
  // Whether the leader waits for what it said last. It does not for the steps of a device that is
  // behind.
  bool Answers() { return std::exchange(answers_, false) || own_.pipeline_depth() == 0; }

 private:
  absl::Status Differs(const std::string& what) const {
    return absl::DataLossError(absl::StrCat("rank ", group_.rank().value(), ": ", what));
  }

  Executor& own_;
  collective::Collective& group_;
  std::deque<StepTicket> under_way_;
  bool answers_ = false;
  bool leaves_ = false;
};

absl::Status DoAll(Follower& follower, absl::string_view message) {
  const auto commands = ReadCommands(message);
  if (!commands.ok()) return commands.status();
  for (const RankCommand& command : *commands) {
    absl::Status status =
        std::visit([&follower](const auto& one) { return follower.Do(one); }, command);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunRankFollower(Executor& own, collective::Collective& group) {
  Follower follower(own, group);
  const std::vector<size_t> sizes(group.size(), 1);
  while (!follower.leaves()) {
    std::string message;
    // There may be nothing to do for as long as nobody asks for anything.
    absl::Status status = group.Broadcast(message, absl::InfiniteFuture());
    if (!status.ok()) return status;
    if (status = DoAll(follower, message); !status.ok()) {
      group.Abort(status);
      return status;
    }
    if (!follower.Answers()) continue;
    const std::byte done{};
    if (status = group.Gather({&done, 1}, sizes, {}, absl::Now() + kAnswer); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace folio::model
