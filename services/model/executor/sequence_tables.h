// SequenceTables holds the block tables of all sequences of a worker, by slot. It is the worker's
// only book of them: the step loop edits and reads it, and the executor that owns it builds each
// step's inputs from it. All it holds can be rebuilt from the manager's record.
//
// An edit takes effect for the steps that are enqueued after it. A device that runs behind the host
// gets its inputs with the step, so an edit never reaches a step that is already under way.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_SEQUENCE_TABLES_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_SEQUENCE_TABLES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "services/base/geometry.h"
#include "services/base/ids.h"
#include "services/base/score_kind.h"
#include "services/base/session_types.h"
#include "services/model/executor/block_tables.h"
#include "services/model/executor/table_edit.h"

namespace folio::model {

// A sequence as the steps of an executor see it. StepRows uses all but the table.
struct SequenceState {
  BlockTables table;
  std::optional<TokenId> last_sampled;
  bool sampled_on_device = false;  // only the device knows the token that was sampled last
  uint64_t last_step = 0;          // the newest step that the sequence was part of
};

// Use of a slot that is not held is a CHECK. Not thread-safe: one caller thread, the executor's.
class SequenceTables {
 public:
  SequenceTables(const CacheGeometry& geometry, uint32_t num_pages)
      : geometry_(geometry), num_pages_(num_pages) {}

  // Returns the lowest free slot, with empty tables. Ranks that make the same edits in the same
  // order therefore number their slots alike.
  SequenceSlot Acquire(ScoreKind score);
  // Appends pages to each layer's table; pages[layer]. With `clear` other tenants' K and V may be
  // in them, and the sequence's next step clears them first.
  void Extend(SequenceSlot slot, const LayerPageLists& pages, bool clear = false);
  // Makes a fresh slot's tables those of a sequence that another worker left; layers[layer]. K, V
  // and scores are in the pages. `clear` is for the pages that have no token yet.
  void Restore(SequenceSlot slot, const std::vector<ClaimedLayer>& layers, bool clear = false);
  // Takes a block out of each layer's table that has one named. The block must be full.
  void DropBlocks(SequenceSlot slot, const DropAction& drop);
  void Release(SequenceSlot slot);

  const BlockTables& at(SequenceSlot slot) const;
  // For executors only: what a step advances, and the bookkeeping of a compaction.
  SequenceState& state(SequenceSlot slot);

  // Has the edits above kept from now on, or no longer; TakeEdits returns them in their order.
  void KeepEdits(bool keep);
  std::vector<TableEdit> TakeEdits();
  // Makes an edit that another SequenceTables kept. DATA_LOSS: Acquire gives another slot here.
  absl::Status Apply(const TableEdit& edit);

 private:
  CacheGeometry geometry_;
  uint32_t num_pages_;
  std::vector<std::optional<SequenceState>> held_;  // by slot
  bool keeps_edits_ = false;
  std::vector<TableEdit> edits_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_SEQUENCE_TABLES_H_
