// PageCensus tells who has each page of a pool. A pool may have millions of pages, so it takes the
// coordinator's lock again and again, for some of them at a time, and the result is not that of
// one moment. A page that changes hands meanwhile may be told as its last or its next owner's.
//
// Thread-safe.
#ifndef FOLIO_SERVICES_CACHE_PAGE_CENSUS_H_
#define FOLIO_SERVICES_CACHE_PAGE_CENSUS_H_

#include <cstdint>
#include <vector>

#include "services/base/ids.h"
#include "services/cache/coordinator.h"
#include "services/cache/page_pool.h"

namespace folio::cache {

// One page. The rest is of held pages.
struct PageFacts {
  PageState state = PageState::kFree;
  bool scored = false;  // all its tokens have scores that its owner's policy reads
  uint16_t layer = 0;
  SequenceId sequence;  // 0 if the page has changed hands just now
};

class PageCensus {
 public:
  // Borrows the coordinator.
  explicit PageCensus(const Coordinator& coordinator) : coordinator_(coordinator) {}

  // By page id. Takes 16 bytes a page.
  std::vector<PageFacts> Count() const;
  // The mean of a page's scores in the first channel, as they are at this moment. Never NaN
  // (policy::TokenScore). Precondition: the page is `scored`.
  float MeanScore(PageId page) const;

 private:
  void AddStates(std::vector<PageFacts>& pages) const;
  std::vector<SequenceId> Sequences() const;
  void AddPagesOf(SequenceId id, std::vector<PageFacts>& pages) const;

  const Coordinator& coordinator_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_PAGE_CENSUS_H_
