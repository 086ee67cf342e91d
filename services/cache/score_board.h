// The pool's score board as the cache reads it.
#ifndef FOLIO_SERVICES_CACHE_SCORE_BOARD_H_
#define FOLIO_SERVICES_CACHE_SCORE_BOARD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/common/ids.h"

namespace folio::cache {

// float[plane][page][page_tokens][kv_heads]; see CacheGeometry::kScorePlanes. Borrows; workers
// write while it is read.
struct ScoreBoard {
  const float* scores = nullptr;
  size_t num_pages = 0;
  size_t page_floats = 0;

  // Where the scores of `pages` lie in one plane.
  std::vector<const float*> Rows(absl::Span<const PageRef> pages, uint32_t plane) const {
    std::vector<const float*> rows;
    rows.reserve(pages.size());
    for (const PageRef& ref : pages) {
      rows.push_back(scores + (plane * num_pages + ref.page.value()) * page_floats);
    }
    return rows;
  }
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SCORE_BOARD_H_
