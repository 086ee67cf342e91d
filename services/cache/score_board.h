// ScoreBoard is the pool's score board as the cache reads it. It finds the rows of a page.
#ifndef FOLIO_SERVICES_CACHE_SCORE_BOARD_H_
#define FOLIO_SERVICES_CACHE_SCORE_BOARD_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/policy/score_rows.h"

namespace folio::cache {

// These point at the rows of pages. In decode that is one page a layer, mostly.
using RowPointers = absl::InlinedVector<const float*, 2>;

// The layout is float[channel][page][page_tokens][kv_heads] (see CacheGeometry::kScoreChannels).
// The memory is borrowed, and workers write other rows while some are read.
struct ScoreBoard {
  const float* scores = nullptr;
  size_t num_pages = 0;
  size_t page_floats = 0;

  // The scores of `pages` in one channel.
  RowPointers Rows(absl::Span<const PageRef> pages, uint32_t channel) const {
    RowPointers rows;
    rows.reserve(pages.size());
    for (const PageRef& ref : pages) {
      rows.push_back(scores + (channel * num_pages + ref.page.value()) * page_floats);
    }
    return rows;
  }

  // Begins to read the rows of a page in the first channel. `page` may be any number.
  void Prefetch(PageRef page) const {
    if (page.page.value() >= num_pages) return;
    policy::Prefetch(scores + page.page.value() * page_floats, page_floats);
  }
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SCORE_BOARD_H_
