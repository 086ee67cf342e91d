#include "services/model/tp/rank_follower.h"

#include <deque>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/base/steady_time.h"
#include "services/model/tp/rank_command.h"

namespace folio::model {
namespace {

// The leader is waiting for the answer by then, so this only bounds a leader that hangs.
constexpr absl::Duration kAnswer = absl::Minutes(10);

class Follower {
 public:
  Follower(Executor& own, collective::Collective& group) : own_(own), group_(group) {}

  template <typename Edit>
    requires std::is_constructible_v<TableEdit, const Edit&>
  absl::Status Do(const Edit& edit) {
    const absl::Status status = own_.tables().Apply(edit);
    return status.ok() ? status : Differs(status.message());
  }
  absl::Status Do(const CompactCommand& command) {
    own_.Compact(command.slot, command.compact);
    return absl::OkStatus();
  }
  absl::Status Do(const SwapCommand& command) {
    own_.Swap(command.swaps);
    return absl::OkStatus();
  }
  absl::Status Do(const StepCommand& command) {
    if (command.digest.has_value() &&
        *command.digest != BatchDigest(own_.tables(), command.batch)) {
      return Differs("its block tables are not the leader's");
    }
    const StepTicket ticket = own_.Enqueue(command.batch);
    if (own_.pipeline_depth() == 0) return own_.Collect(ticket).status;
    under_way_.push_back(ticket);
    return own_.fault();
  }
  absl::Status Do(const CollectCommand&) {
    answers_ = true;
    if (under_way_.empty())
      return Differs("the leader waits for a step that was not enqueued here");
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
  absl::Status Differs(absl::string_view what) const {
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

absl::Status RunRankFollower(Executor& own, collective::Collective& group,
                             const std::function<void(bool)>& busy) {
  Follower follower(own, group);
  const std::vector<size_t> sizes(group.size(), 1);
  while (!follower.leaves()) {
    std::string message;
    // No deadline: without requests from clients there may be nothing to do for days.
    absl::Status status = group.Broadcast(message, SteadyTime::InfiniteFuture());
    if (!status.ok()) return status;
    if (busy) busy(true);
    status = DoAll(follower, message);
    if (busy) busy(false);
    if (!status.ok()) {
      group.Abort(status);
      return status;
    }
    if (!follower.Answers()) continue;
    const std::byte done{};
    if (status = group.Gather({&done, 1}, sizes, {}, SteadyNow() + kAnswer); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace folio::model
