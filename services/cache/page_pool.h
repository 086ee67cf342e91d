// PagePool keeps the state of every page: free, held by a sequence, or quarantined. A page is
// quarantined while a lost worker's process could still write it, and ConfirmExited of the
// coordinator frees it then. Each page has a generation that grows when the page is given out, so
// that a stale reference is recognised.
//
// A page is given out only against a reservation, and there are always at least as many free pages
// as promised ones. A promise is therefore always kept.
// Thread-compatible, guarded by the coordinator's lock. Releasing a page that is not held is a bug
// and ends the process.
#ifndef FOLIO_SERVICES_CACHE_PAGE_POOL_H_
#define FOLIO_SERVICES_CACHE_PAGE_POOL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/cache/page_clearing.h"

namespace folio::cache {

class PagePool;

enum class PageState : uint8_t { kFree, kHeld, kQuarantined };

// PageReservation is a promise of pages that are not given out yet. Move-only. The destructor takes
// the promise back. Must not outlive the pool.
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
  explicit PagePool(PageCount pages, ClearPages clear = ClearPages::kNever);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // Promises `count` pages, or returns nullopt if fewer are free and not promised.
  std::optional<PageReservation> Reserve(PageCount count);
  // Gives out one page of the promise. The page that was freed last is taken first, because its
  // memory is still in the processor's caches and unused pages then never become resident.
  PageRef Take(PageReservation& reservation);
  // Held pages become free.
  void Release(absl::Span<const PageRef> pages);
  // A held page becomes quarantined, because `owner` could still write it.
  void Quarantine(PageRef page, WorkerId owner);
  // The pages quarantined for `owner` become free. Returns how many.
  PageCount EndQuarantine(WorkerId owner);

  bool IsHeld(PageRef page) const;
  PageCount total() const { return PageCount(static_cast<uint32_t>(entries_.size())); }
  PageCount free() const { return PageCount(static_cast<uint32_t>(free_.size())); }
  PageCount held() const { return held_; }
  PageCount quarantined() const { return quarantined_; }
  PageCount quarantined(WorkerId owner) const;
  PageCount reserved() const { return reserved_; }
  // Free and not promised.
  PageCount available() const { return free() - reserved_; }

  // INTERNAL unless every page is in exactly one state and the counts agree. O(pages).
  absl::Status CheckInvariants() const;

 private:
  friend class PageCensus;
  friend class Parking;
  friend class PageReservation;
  friend class Restoration;
  friend class Sequence;
  struct Entry {
    Generation generation;
    PageState state = PageState::kFree;
  };

  Entry& HeldEntry(PageRef page);
  // These pages were given out by a pool before this one, and are held here from now on. False,
  // and nothing changes, if one of them is not free here or is named twice. O(pages of the pool).
  bool Adopt(absl::Span<const PageRef> pages);

  std::vector<Entry> entries_;  // by page id
  std::vector<PageId> free_;    // a stack
  std::map<WorkerId, std::vector<PageId>> quarantine_;
  PageCount held_;
  PageCount quarantined_;
  PageCount reserved_;
  PageClearing clearing_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_PAGE_POOL_H_
