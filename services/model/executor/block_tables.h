// BlockTables is the block tables of one sequence: in each layer the pages in token order and the
// number of resident tokens. It is bookkeeping on the host. The tokens' K and V are in the pages,
// wherever those are.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_BLOCK_TABLES_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_BLOCK_TABLES_H_

#include <cstdint>
#include <vector>

#include "services/base/geometry.h"
#include "services/base/ids.h"
#include "services/base/score_kind.h"
#include "services/base/session_types.h"

namespace folio::model {

// Every misuse (a page outside the pool, a block that is not full, too few pages) is a CHECK. The
// tables come from the manager, and the caller has checked them before. Not thread-safe.
class BlockTables {
 public:
  struct Layer {
    std::vector<uint32_t> pages;          // in the form that kernels read
    std::vector<Generation> generations;  // of the same pages
    uint32_t resident = 0;                // tokens
    std::vector<uint32_t> positions;      // of the resident tokens, if the table keeps them
    uint32_t mirrored = 0;                // see SetMirrored
    uint32_t cleared = 0;                 // pages at the front that need no clearing
  };

  // It keeps positions for kUnrotatedDifference.
  BlockTables(const CacheGeometry& geometry, uint32_t num_pages, ScoreKind score);

  // The meaning of these three is that of SequenceTables.
  void Extend(const LayerPageLists& pages, bool clear = false);
  void Restore(const std::vector<ClaimedLayer>& layers, bool clear = false);
  void DropBlocks(const DropAction& drop);
  // Does the bookkeeping of a compaction: the survivors lie at the front of each layer's pages, and
  // the table keeps their pages and compact.spare[layer] more.
  void Compact(const CompactAction& compact);
  // Adds `rows` resident tokens to every layer, with logical positions from `first`. Pages that
  // windows have passed then leave the table, because the manager takes them back when it learns of
  // these tokens.
  void Advance(Position first, uint32_t rows);

  const CacheGeometry& geometry() const { return geometry_; }
  ScoreKind score() const { return score_; }
  const Layer& layer(LayerIndex layer) const;
  uint32_t resident(LayerIndex layer) const { return this->layer(layer).resident; }
  // The number of pages in the layer's table.
  uint32_t pages(LayerIndex layer) const;
  // The same of all layers together.
  uint32_t total_pages() const;
  // Resident tokens of the layer that has most, and of the one without a window that has fewest.
  uint32_t most_resident() const;
  uint32_t least_resident() const;
  // Tokens that still fit into the pages, in the fullest layer.
  uint32_t free_tokens() const;
  // The layer's newest page that has a token in it, which is the page that a commit names when it
  // has become full.
  PageRef NewestPage(LayerIndex layer) const;
  // Equal for equal kinds of score, pages, lengths and positions, in every process.
  uint64_t Digest() const;

  // The survivors of a compaction in one layer, which must be ascending and resident.
  std::vector<uint32_t> Survivors(LayerIndex layer, const std::vector<TokenSlot>& keep) const;

  // A device that keeps a copy of the table says here that the copy has all pages of the layer.
  // `mirrored` counts the pages at the front that the copy still has right: edits that move pages
  // lower it, so that only what has changed since must be sent to the device.
  void SetMirrored(LayerIndex layer);

 private:
  friend class StepRows;
  // Takes pages at the front out of a layer.
  void DropFront(Layer& layer, uint32_t pages) const;
  // Appends the pages that are to be cleared before a step writes them to `pages`, once.
  void TakeUncleared(std::vector<uint32_t>& pages);
  bool keeps_positions() const { return keeps_positions_; }

  CacheGeometry geometry_;
  uint32_t num_pages_;
  ScoreKind score_;
  bool keeps_positions_;
  std::vector<Layer> layers_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_BLOCK_TABLES_H_
