// TableEdit is a change of one sequence's block tables that the host makes between two steps. The
// edits of a SequenceTables can be kept and applied to another one, which then has the same tables
// in the same slots: the ranks of a tensor-parallel group follow their leader this way.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_TABLE_EDIT_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_TABLE_EDIT_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "services/base/ids.h"
#include "services/base/score_kind.h"
#include "services/base/session_types.h"

namespace folio::model {

// A sequence's place in a SequenceTables. It is given out again after Release.
using SequenceSlot = StrongInt<struct SequenceSlotTag, uint32_t>;

struct AcquireEdit {
  SequenceSlot slot;  // the one that was given out
  ScoreKind score = ScoreKind::kNone;
};
struct ExtendEdit {
  SequenceSlot slot;
  LayerPageLists pages;
  bool clear = false;  // the next step clears them
};
struct RestoreEdit {
  SequenceSlot slot;
  std::vector<ClaimedLayer> layers;
  bool clear = false;  // the next step clears those without tokens
};
struct DropEdit {
  SequenceSlot slot;
  DropAction drop;
};
struct ReleaseEdit {
  SequenceSlot slot;
};

// Compactions are not among them, because they move tokens on the device: see Executor::Compact.
using TableEdit = std::variant<AcquireEdit, ExtendEdit, RestoreEdit, DropEdit, ReleaseEdit>;

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_TABLE_EDIT_H_
