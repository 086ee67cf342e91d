// BlockTable is one layer of one sequence: its pages in token order, how many tokens they hold, and
// the logical position of each token. Tokens that survive an eviction keep their positions, because
// their keys were rotated for them.
//
// Positions are stored as ranges, so a sequence without evictions costs one range. A table holds
// page ids and never touches the memory. Thread-compatible. A call that breaks its precondition is
// a bug and ends the process.
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
  // The end of the last range, or 0 without tokens.
  Position positions_end() const { return last_.end; }

  void AddPage(PageRef page) { pages_.push_back(page); }

  // Appends `count` tokens with positions `first`, `first + 1`, ... Precondition: they fit into the
  // pages, and `first` is behind all positions so far.
  void Append(Position first, TokenCount count);

  // Keeps the slots `keep` (ascending), moved together to the front, and `spare` pages behind those
  // of the survivors. Returns the other pages.
  PageList Compact(absl::Span<const TokenSlot> keep, PageCount spare);

  // Removes one full block and returns its page.
  PageRef Drop(BlockIndex block);

  // Returns all pages and keeps the positions. The tokens get as many pages again, by AddPage,
  // before anything else.
  PageList GiveUpPages() { return std::exchange(pages_, {}); }

  // Empties the table and returns all its pages.
  PageList Clear();

  // INTERNAL unless lengths, ranges and pages agree. A table with no page at all may have given
  // them up.
  absl::Status CheckInvariants() const;

 private:
  void AppendRange(Position begin, Position end);
  // CloseLast moves the last range to the closed ones, and OpenLast moves it back.
  void CloseLast();
  void OpenLast();

  uint32_t page_tokens_;
  uint32_t resident_ = 0;
  PageList pages_;
  std::vector<PositionRange> closed_;  // all ranges except the last
  PositionRange last_ = {};            // separate because each step extends it
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_BLOCK_TABLE_H_
