// PoolMap draws the pages of a pool as rows of characters. Each character stands for some
// neighbouring pages, and shows their state, their owner or their scores.
#ifndef FOLIO_SERVICES_CLI_POOL_MAP_H_
#define FOLIO_SERVICES_CLI_POOL_MAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "folio/v1/admin.pb.h"
#include "services/cli/terminal.h"

namespace folio::cli {

enum class MapBy : uint8_t { kState, kOwner, kScore };

// PageCounts is a pool's pages by what they are.
struct PageCounts {
  uint64_t total = 0, free = 0, held = 0, quarantined = 0;
};

class PoolMap {
 public:
  // Borrows the runs, which together are all pages of a pool.
  explicit PoolMap(absl::Span<const folio::v1::PageRun> runs);

  const PageCounts& counts() const { return counts_; }

  // At most `rows` lines of `width` characters, or one of fewer. A character of the map by state
  // tells the state that most of its pages have, and one by owner the owner that has most of them,
  // by a letter.
  std::vector<std::string> Rows(MapBy by, int width, int rows, bool utf8) const;
  // Lines that explain the characters: the owners by letters, the largest first, or the ramp.
  std::vector<std::string> Legend(MapBy by, bool utf8) const;
  // Pages of one character, if the map has at most so many.
  uint64_t PagesOfACharacter(int width, int rows) const;

 private:
  struct Owner {
    uint64_t sequence = 0;
    uint64_t pages = 0;
  };
  // The pages that one character stands for.
  struct Cell;
  std::vector<Cell> Cells(uint64_t pages_each) const;
  std::string Draw(const Cell& cell, MapBy by, bool utf8) const;
  char LetterOf(uint64_t sequence) const;

  absl::Span<const folio::v1::PageRun> runs_;
  PageCounts counts_;
  std::vector<Owner> owners_;  // the largest first
  std::vector<float> scores_;  // of all pages with scores, ascending
};

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_POOL_MAP_H_
