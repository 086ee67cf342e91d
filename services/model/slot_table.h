// One sequence's block tables as the kernels want them: per layer the pages in token order and the
// number of resident tokens. Not thread-safe.
#ifndef FOLIO_SERVICES_MODEL_SLOT_TABLE_H_
#define FOLIO_SERVICES_MODEL_SLOT_TABLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/views.h"
#include "services/common/ids.h"
#include "services/model/executor.h"

namespace folio::model {

// Every misuse (a page outside the pool, a block that is not full, too few pages) is a CHECK: the
// caller's tables come from the manager and are checked there.
class SlotTable {
 public:
  static constexpr uint32_t kMostSamples = 16;

  SlotTable(const kernels::PoolView& pool, kernels::ScoreKind score);

  // See Executor for these five.
  void Extend(const std::vector<std::vector<PageRef>>& pages);
  void Restore(const std::vector<std::vector<PageRef>>& pages,
               const std::vector<std::vector<PositionRun>>& positions);
  void DropBlocks(const std::vector<std::optional<BlockIndex>>& block);
  uint32_t free_tokens() const;
  PageRef NewestPage(LayerIndex layer) const;

  uint32_t resident(LayerIndex layer) const { return layers_[layer.value()].resident; }
  const std::vector<uint32_t>& pages(LayerIndex layer) const {
    return layers_[layer.value()].pages;
  }
  kernels::ScoreKind score() const { return score_; }
  // Over all it holds.
  uint64_t Digest() const;

  // `keep`, slots of one layer, checked: ascending, of resident tokens.
  std::vector<uint32_t> Survivors(LayerIndex layer, const std::vector<SlotIndex>& keep) const;
  // Moves them to the front, in the host's memory. Layers may do so side by side.
  void Gather(LayerIndex layer, const std::vector<SlotIndex>& keep) const;
  // Bookkeeping after `keep[layer]` was gathered in every layer.
  void Shrink(const std::vector<std::vector<SlotIndex>>& keep, const std::vector<uint32_t>& spare);

  // Where the next tokens of one layer go: out[i] for the i-th of `rows`, positions from `first`.
  void Place(LayerIndex layer, Position first, uint32_t rows, kernels::AppendSlot* out) const;
  // What they attend to, themselves included.
  kernels::AttentionRun Run(LayerIndex layer, uint32_t first_row, uint32_t rows) const;
  // They are written: in every layer `rows` more tokens are resident, positions from `first`.
  void Advance(Position first, uint32_t rows);
  // Adds every layer's resident tokens to `out`.
  void ListResident(std::vector<kernels::ResidentRun>& out) const;
  // For kUnrotatedDifference: adds every layer's tokens to be scored against them all, or with
  // `newest` the full newest page's, of layers that have one, against the last token of every page
  // but the first, or of every n-th where they would be more than kMostSamples.
  void ListUnrotated(bool newest, std::vector<kernels::UnrotatedRun>& out) const;

 private:
  struct Layer {
    std::vector<uint32_t> pages;
    std::vector<Generation> generations;  // of the same pages
    uint32_t resident = 0;
    std::vector<uint32_t> positions;  // of the resident tokens; only for kUnrotatedDifference
  };

  bool keeps_positions() const { return score_ == kernels::ScoreKind::kUnrotatedDifference; }

  kernels::PoolView pool_;
  kernels::ScoreKind score_;
  std::vector<Layer> layers_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SLOT_TABLE_H_
