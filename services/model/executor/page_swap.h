// PageSwaps is copies of pages between a pool and its swap memory (see kernels::SwapView), which
// hold what a parked sequence needs to go on: K, V and scores.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_PAGE_SWAP_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_PAGE_SWAP_H_

#include <cstdint>
#include <vector>

#include "kernels/views.h"
#include "services/base/ids.h"

namespace folio::model {

struct PageSwap {
  PageId page;
  SwapSlot slot;
  friend bool operator==(const PageSwap&, const PageSwap&) = default;
};

// No page and no slot is named twice.
struct PageSwaps {
  bool out = false;  // from pages to slots, else from slots to pages
  std::vector<PageSwap> pages;
  friend bool operator==(const PageSwaps&, const PageSwaps&) = default;
};

// Both check that the page is in the pool and the slot in its swap memory. Copies K and V of one
// page in memory of the host.
void CopyPage(const kernels::PoolView& pool, bool out, const PageSwap& swap);
// Copies the scores of one page in all channels. The board is in memory of the host for every
// device. A rank that does not write scores leaves them alone.
void CopyScores(const kernels::PoolView& pool, bool out, const PageSwap& swap);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_PAGE_SWAP_H_
