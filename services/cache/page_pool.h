// The states of a pool's pages: free, held, or quarantined, with one generation each that grows
// whenever the page is given out.
//
// A page is given out only against a reservation, so a promise made once is never broken: free
// pages are always at least as many as promised ones. Thread-compatible; the coordinator's lock
// guards it. Releasing a page that is not held is a bug and ends the process.
#ifndef FOLIO_SERVICES_CACHE_PAGE_POOL_H_
#define FOLIO_SERVICES_CACHE_PAGE_POOL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "services/common/ids.h"

namespace folio::cache {

class PagePool;

// Pages promised but not yet given out. Move-only; the destructor takes the promise back. Must not
// outlive the pool.
class PageReservation {
 public:
  PageReservation() = default;
  PageReservation(PageReservation&& other) noexcept;
  PageReservation& operator=(PageReservation&& other) noexcept;
  ~PageReservation();

  PageCount count() const { return count_; }
  // Shrinks or grows the promise. The pool must have the pages to grow by.
  void ResizeTo(PageCount count);

 private:
  friend class PagePool;
  PageReservation(PagePool* pool, PageCount count) : pool_(pool), count_(count) {}

  PagePool* pool_ = nullptr;
  PageCount count_;
};

class PagePool {
 public:
  explicit PagePool(PageCount pages);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // Nothing when fewer than `count` pages are free of promises.
  std::optional<PageReservation> Reserve(PageCount count);
  // Gives out one page of the promise. The most recently freed page goes first: its memory is warm,
  // and pages never used stay untouched.
  PageRef Take(PageReservation& reservation);
  // held -> free.
  void Release(PageRef page);
  // held -> quarantined: `owner` could still write it.
  void Quarantine(PageRef page, WorkerId owner);
  // quarantined by `owner` -> free. Returns how many.
  PageCount EndQuarantine(WorkerId owner);

  bool IsHeld(PageRef page) const;
  PageCount total() const { return PageCount(static_cast<uint32_t>(entries_.size())); }
  PageCount free() const { return PageCount(static_cast<uint32_t>(free_.size())); }
  PageCount held() const { return held_; }
  PageCount quarantined() const { return quarantined_; }
  PageCount quarantined(WorkerId owner) const;
  PageCount reserved() const { return reserved_; }

  // INTERNAL unless every page is in exactly one state and the counts agree. O(pages).
  absl::Status CheckInvariants() const;

 private:
  friend class PageReservation;
  enum class PageState : uint8_t { kFree, kHeld, kQuarantined };
  struct Entry {
    Generation generation;
    PageState state = PageState::kFree;
  };

  Entry& HeldEntry(PageRef page);

  std::vector<Entry> entries_;  // by page id
  std::vector<PageId> free_;    // a stack
  std::map<WorkerId, std::vector<PageId>> quarantine_;
  PageCount held_;
  PageCount quarantined_;
  PageCount reserved_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_PAGE_POOL_H_
