// What the leader of a tensor-parallel group tells the other ranks' executors: table edits and
// steps, in the order of its own calls, in bytes. Between processes of one version: numbers are
// 32-bit little-endian words, lists have their length in front.
#ifndef FOLIO_SERVICES_MODEL_RANK_COMMAND_H_
#define FOLIO_SERVICES_MODEL_RANK_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/model/executor.h"

namespace folio::model {

struct AcquireCommand {
  SlotId slot;  // that the leader's executor gave
  kernels::ScoreKind score = kernels::ScoreKind::kNone;
};
struct ExtendCommand {
  SlotId slot;
  std::vector<std::vector<PageRef>> pages;
};
struct RestoreCommand {
  SlotId slot;
  std::vector<std::vector<PageRef>> pages;
  std::vector<std::vector<PositionRun>> positions;
};
struct CompactCommand {
  SlotId slot;
  std::vector<std::vector<SlotIndex>> keep;
  std::vector<uint32_t> spare;
};
struct DropCommand {
  SlotId slot;
  std::vector<std::optional<BlockIndex>> block;
};
struct ReleaseCommand {
  SlotId slot;
};
// Sampling parameters and targets stay with the leader.
struct StepCommand {
  StepBatch batch;
  std::optional<uint64_t> digest;  // BatchDigest before the step
};
// Of executors that are a step behind: wait for the oldest step.
struct CollectCommand {};
// The leader will say nothing more.
struct LeaveCommand {};

using RankCommand =
    std::variant<AcquireCommand, ExtendCommand, RestoreCommand, CompactCommand, DropCommand,
                 ReleaseCommand, StepCommand, CollectCommand, LeaveCommand>;

void AppendCommand(const RankCommand& command, std::string& bytes);

// All commands of one message. INVALID_ARGUMENT says at which byte they cannot be read.
absl::StatusOr<std::vector<RankCommand>> ReadCommands(absl::string_view bytes);

// Over the tables of a step's slots.
uint64_t BatchDigest(const Executor& executor, const StepBatch& batch);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_RANK_COMMAND_H_
