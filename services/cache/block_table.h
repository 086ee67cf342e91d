// One layer's share of one sequence: its pages in token order, how many tokens they hold, and which
// logical position each of these tokens has. Survivors of an eviction are never renumbered.
//
// Positions are kept as runs, so a sequence that was never evicted from costs one run. Bookkeeping
// only; thread-compatible. A call that breaks its precondition is a bug and ends the process.
#ifndef FOLIO_SERVICES_CACHE_BLOCK_TABLE_H_
#define FOLIO_SERVICES_CACHE_BLOCK_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "services/common/ids.h"

namespace folio::cache {

// One layer's pages, in table order.
using PageList = std::vector<PageRef>;
// One PageList per layer.
using LayerPageLists = std::vector<PageList>;

struct PositionRange {
  Position begin;
  Position end;  // exclusive
  friend constexpr bool operator==(const PositionRange&, const PositionRange&) = default;
};

class BlockTable {
 public:
  explicit BlockTable(uint32_t page_tokens) : page_tokens_(page_tokens) {}

  const PageList& pages() const { return pages_; }
  TokenCount resident() const { return TokenCount(resident_); }
  // Tokens that the pages can hold.
  uint64_t capacity() const { return uint64_t{page_tokens_} * pages_.size(); }
  // Logical positions of slots 0, 1, ..., as ascending runs, none touching the next.
  std::vector<PositionRange> positions() const;
  // Behind all of them; 0 without tokens.
  Position positions_end() const { return last_.end; }

  void AddPage(PageRef page) { pages_.push_back(page); }

  // `count` tokens with positions `first`, `first + 1`, ... Precondition: they fit the pages, and
  // `first` is behind all positions so far.
  void Append(Position first, TokenCount count);

  // Keeps the slots `keep` (ascending), moved together to the front, and `spare` pages behind the
  // survivors' pages. Returns the pages given up.
  PageList Compact(absl::Span<const SlotIndex> keep, PageCount spare);

  // Takes out one full block and returns its page.
  PageRef Drop(BlockIndex block);

  // All pages, leaving an empty table.
  PageList Clear();

  // INTERNAL unless lengths, runs and pages agree.
  absl::Status CheckInvariants() const;

 private:
  void AppendRun(Position begin, Position end);
  // The last run goes to the closed ones, and comes back from them.
  void CloseLast();
  void OpenLast();

  uint32_t page_tokens_;
  uint32_t resident_ = 0;
  PageList pages_;
  std::vector<PositionRange> closed_;  // all runs but the last
  PositionRange last_ = {};            // empty without tokens; here, since each step extends it
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_BLOCK_TABLE_H_
