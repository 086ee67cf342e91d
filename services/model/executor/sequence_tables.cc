#include "services/model/executor/sequence_tables.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"

namespace folio::model {

SequenceSlot SequenceTables::Acquire(ScoreKind score) {
  uint32_t free = 0;
  while (free < held_.size() && held_[free].has_value()) ++free;
  if (free == held_.size()) held_.emplace_back();
  held_[free] = SequenceState{BlockTables(geometry_, num_pages_, score), std::nullopt};
  const SequenceSlot slot(free);
  if (keeps_edits_) edits_.emplace_back(AcquireEdit{slot, score});
  return slot;
}

void SequenceTables::Extend(SequenceSlot slot, const LayerPageLists& pages, bool clear) {
  state(slot).table.Extend(pages, clear);
  if (keeps_edits_) edits_.emplace_back(ExtendEdit{slot, pages, clear});
}

void SequenceTables::Restore(SequenceSlot slot, const std::vector<ClaimedLayer>& layers,
                             bool clear) {
  state(slot).table.Restore(layers, clear);
  if (keeps_edits_) edits_.emplace_back(RestoreEdit{slot, layers, clear});
}

void SequenceTables::DropBlocks(SequenceSlot slot, const DropAction& drop) {
  state(slot).table.DropBlocks(drop);
  if (keeps_edits_) edits_.emplace_back(DropEdit{slot, drop});
}

void SequenceTables::Release(SequenceSlot slot) {
  state(slot);
  held_[slot.value()].reset();
  if (keeps_edits_) edits_.emplace_back(ReleaseEdit{slot});
}

const BlockTables& SequenceTables::at(SequenceSlot slot) const {
  FOLIO_CHECK(slot.value() < held_.size() && held_[slot.value()].has_value());
  return held_[slot.value()]->table;
}

SequenceState& SequenceTables::state(SequenceSlot slot) {
  FOLIO_CHECK(slot.value() < held_.size() && held_[slot.value()].has_value());
  return *held_[slot.value()];
}

void SequenceTables::KeepEdits(bool keep) {
  keeps_edits_ = keep;
  if (!keep) edits_.clear();
}

std::vector<TableEdit> SequenceTables::TakeEdits() { return std::exchange(edits_, {}); }

absl::Status SequenceTables::Apply(const TableEdit& edit) {
  struct Visitor {
    SequenceTables& tables;
    absl::Status operator()(const AcquireEdit& edit) const {
      const SequenceSlot slot = tables.Acquire(edit.score);
      if (slot == edit.slot) return absl::OkStatus();
      return absl::DataLossError(absl::StrCat(
          "slot ", slot.value(), " was given out instead of slot ", edit.slot.value()));
    }
    absl::Status operator()(const ExtendEdit& edit) const {
      tables.Extend(edit.slot, edit.pages, edit.clear);
      return absl::OkStatus();
    }
    absl::Status operator()(const RestoreEdit& edit) const {
      tables.Restore(edit.slot, edit.layers, edit.clear);
      return absl::OkStatus();
    }
    absl::Status operator()(const DropEdit& edit) const {
      tables.DropBlocks(edit.slot, edit.drop);
      return absl::OkStatus();
    }
    absl::Status operator()(const ReleaseEdit& edit) const {
      tables.Release(edit.slot);
      return absl::OkStatus();
    }
  };
  return std::visit(Visitor{*this}, edit);
}

}  // namespace folio::model
