// RankCommand is one thing that the leader of a tensor-parallel group has the other ranks'
// executors do: a table edit, a compaction, copies to or from swap memory, or a step. Commands are
// sent as bytes, in the order of the leader's own calls. All processes of a group have one version,
// so the format carries none: numbers are 32-bit little-endian words, and lists have their length
// in front.
#ifndef FOLIO_SERVICES_MODEL_TP_RANK_COMMAND_H_
#define FOLIO_SERVICES_MODEL_TP_RANK_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/model/executor/executor.h"
#include "services/model/executor/table_edit.h"

namespace folio::model {

struct CompactCommand {
  SequenceSlot slot;
  CompactAction compact;
};
// Each rank copies its own part of the pages.
struct SwapCommand {
  PageSwaps swaps;
};
// Sampling parameters and targets are not sent, because only the leader samples. top_logprobs is 1
// for any list and -1 otherwise, because a step with lists of log-probabilities is not a graph.
struct StepCommand {
  StepBatch batch;
  std::optional<uint64_t> digest;  // BatchDigest before the step
};
// Waits for the oldest step, on executors that run a step behind.
struct CollectCommand {};
// The last command of a leader.
struct LeaveCommand {};

using RankCommand = std::variant<AcquireEdit, ExtendEdit, RestoreEdit, CompactCommand, SwapCommand,
                                 DropEdit, ReleaseEdit, StepCommand, CollectCommand, LeaveCommand>;

void AppendCommand(const RankCommand& command, std::string& bytes);
// Appends the edit as the command of the same kind.
void AppendEdit(TableEdit edit, std::string& bytes);

// All commands of one message. INVALID_ARGUMENT says at which byte they cannot be read.
absl::StatusOr<std::vector<RankCommand>> ReadCommands(absl::string_view bytes);

// A digest of the tables of a step's slots.
uint64_t BatchDigest(const SequenceTables& tables, const StepBatch& batch);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TP_RANK_COMMAND_H_
