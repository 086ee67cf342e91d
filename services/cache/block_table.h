// BlockTable is one layer of one sequence: its pages in token order, how many tokens they hold, and
// the logical position of each token. Tokens that survive an eviction keep their positions, because
// their keys were rotated for them.
//
// Positions are stored block by block, so that a block is dropped without a look at the others. A
// block whose positions follow one another, as all do without evictions, costs eight bytes. A table
// holds page ids and never touches the memory. Thread-compatible. A call that breaks its
// precondition is a bug and ends the process.
#ifndef FOLIO_SERVICES_CACHE_BLOCK_TABLE_H_
#define FOLIO_SERVICES_CACHE_BLOCK_TABLE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"

namespace folio::cache {

class BlockTable {
 public:
  explicit BlockTable(uint32_t page_tokens) : page_tokens_(page_tokens) {}

  const PageList& pages() const { return pages_; }
  TokenCount resident() const { return TokenCount(resident_); }
  // Tokens that the pages can hold.
  uint64_t capacity() const { return uint64_t{page_tokens_} * pages_.size(); }
  // Logical positions of slots 0, 1, ..., as ascending ranges with gaps between them.
  std::vector<PositionRange> positions() const;
  // The tokens whose positions are before `end`, which are its first ones.
  TokenCount CountBefore(Position end) const;

  void AddPage(PageRef page) { pages_.push_back(page); }

  // Appends `count` tokens with positions `first`, `first + 1`, ... Precondition: they fit into the
  // pages, and `first` is behind all positions so far.
  void Append(Position first, TokenCount count);

  // Keeps the slots `keep` (ascending), moved together to the front, and `spare` pages behind those
  // of the survivors. Returns the other pages.
  PageList Compact(absl::Span<const TokenSlot> keep, PageCount spare);

  // Removes full blocks from `first` on, and returns their pages.
  PageList Drop(BlockIndex first, uint32_t blocks = 1);

  // Returns all pages and keeps the positions. The tokens get as many pages again, by AddPage,
  // before anything else.
  PageList GiveUpPages() { return std::exchange(pages_, {}); }

  // Empties the table and returns all its pages.
  PageList Clear();

  // INTERNAL unless lengths, ranges and pages agree. A table with no page at all may have given
  // them up.
  absl::Status CheckInvariants() const;

 private:
  friend class PlanHistory;
  friend struct SavedSequence;
  // Precondition: the slot is resident.
  Position PositionAt(TokenSlot slot) const {
    return PositionOf(blocks_[slot.value() / page_tokens_], slot.value() % page_tokens_);
  }
  // Behind the last position, or 0 without tokens.
  Position positions_end() const;

  // The positions of a block's tokens are `first`, first + 1, ..., or page_tokens_ of `scattered_`
  // from `place` on.
  struct Block {
    static constexpr uint32_t kInARow = UINT32_MAX;
    Position first;
    uint32_t place = kInARow;
  };

  Position PositionOf(const Block& block, uint32_t offset) const {
    return block.place == Block::kInARow ? block.first + Position(offset)
                                         : scattered_[block.place + offset];
  }
  // Tokens that the last block has room for.
  uint32_t Room() const { return static_cast<uint32_t>(blocks_.size()) * page_tokens_ - resident_; }
  // Appends one token, and gives its block a place if it does not follow the one before.
  void AppendOne(Position position);
  void Scatter(Block& block, uint32_t tokens);

  uint32_t page_tokens_;
  uint32_t resident_ = 0;
  PageList pages_;
  std::vector<Block> blocks_;  // those with tokens
  std::vector<Position> scattered_;
  std::vector<uint32_t> free_places_;  // in `scattered_`
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_BLOCK_TABLE_H_
