#include "services/cache/page_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"

namespace folio::cache {

PageReservation::PageReservation(PageReservation&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      count_(std::exchange(other.count_, PageCount(0))) {}

PageReservation& PageReservation::operator=(PageReservation&& other) noexcept {
  if (this != &other) {
    ResizeTo(PageCount(0));
    pool_ = std::exchange(other.pool_, nullptr);
    count_ = std::exchange(other.count_, PageCount(0));
  }
  return *this;
}

PageReservation::~PageReservation() { ResizeTo(PageCount(0)); }

void PageReservation::ResizeTo(PageCount count) {
  if (count == count_) return;
  FOLIO_CHECK(pool_ != nullptr);
  pool_->reserved_ -= count_;
  FOLIO_CHECK(count < count_ || count <= pool_->available());
  pool_->reserved_ += count;
  count_ = count;
}

PagePool::PagePool(PageCount pages, ClearPages clear) : entries_(pages.value()), clearing_(clear) {
  free_.reserve(entries_.size());
  for (uint32_t id = pages.value(); id > 0; --id) free_.push_back(PageId(id - 1));
}

std::optional<PageReservation> PagePool::Reserve(PageCount count) {
  if (count > available()) return std::nullopt;
  reserved_ += count;
  return PageReservation(this, count);
}

PageRef PagePool::Take(PageReservation& reservation) {
  FOLIO_CHECK(reservation.pool_ == this && reservation.count_ > PageCount(0));
  FOLIO_CHECK(!free_.empty());
  reservation.count_ -= PageCount(1);
  reserved_ -= PageCount(1);
  const PageId id = free_.back();
  free_.pop_back();
  Entry& entry = entries_[id.value()];
  FOLIO_CHECK(entry.state == PageState::kFree);
  entry.state = PageState::kHeld;
  ++entry.generation;
  ++held_;
  return {id, entry.generation};
}

bool PagePool::Adopt(absl::Span<const PageRef> pages) {
  size_t taken = 0;
  for (; taken < pages.size(); ++taken) {
    const PageRef page = pages[taken];
    if (page.page.value() >= entries_.size()) break;
    Entry& entry = entries_[page.page.value()];
    if (entry.state != PageState::kFree) break;
    entry.state = PageState::kHeld;
  }
  const bool all = taken == pages.size() && PageCount(static_cast<uint32_t>(taken)) <= available();
  for (const PageRef page : pages.first(taken)) {
    Entry& entry = entries_[page.page.value()];
    if (all) {
      entry.generation = page.generation;
    } else {
      entry.state = PageState::kFree;
    }
  }
  if (!all) return false;
  held_ += PageCount(static_cast<uint32_t>(taken));
  std::erase_if(free_,
                [this](PageId id) { return entries_[id.value()].state != PageState::kFree; });
  return true;
}

PagePool::Entry& PagePool::HeldEntry(PageRef page) {
  FOLIO_CHECK(IsHeld(page));
  return entries_[page.page.value()];
}

void PagePool::Release(absl::Span<const PageRef> pages) {
  // The pages of a sequence's layers lie far apart, so their entries are fetched side by side.
  for (const PageRef page : pages) {
    if (page.page.value() < entries_.size()) __builtin_prefetch(&entries_[page.page.value()], 1);
  }
  for (const PageRef page : pages) {
    HeldEntry(page).state = PageState::kFree;
    held_ -= PageCount(1);
    free_.push_back(page.page);
  }
}

void PagePool::Quarantine(PageRef page, WorkerId owner) {
  HeldEntry(page).state = PageState::kQuarantined;
  held_ -= PageCount(1);
  ++quarantined_;
  quarantine_[owner].push_back(page.page);
}

PageCount PagePool::EndQuarantine(WorkerId owner) {
  const auto it = quarantine_.find(owner);
  if (it == quarantine_.end()) return PageCount(0);
  const PageCount count(static_cast<uint32_t>(it->second.size()));
  for (PageId id : it->second) {
    Entry& entry = entries_[id.value()];
    FOLIO_CHECK(entry.state == PageState::kQuarantined);
    entry.state = PageState::kFree;
    free_.push_back(id);
  }
  quarantined_ -= count;
  quarantine_.erase(it);
  return count;
}

PageCount PagePool::quarantined(WorkerId owner) const {
  const auto it = quarantine_.find(owner);
  return PageCount(it == quarantine_.end() ? 0 : static_cast<uint32_t>(it->second.size()));
}

bool PagePool::IsHeld(PageRef page) const {
  if (page.page.value() >= entries_.size()) return false;
  const Entry& entry = entries_[page.page.value()];
  return entry.state == PageState::kHeld && entry.generation == page.generation;
}

absl::Status PagePool::CheckInvariants() const {
  std::vector<bool> listed(entries_.size(), false);
  const auto check_list = [&](const std::vector<PageId>& ids, PageState state) -> absl::Status {
    for (PageId id : ids) {
      if (id.value() >= entries_.size() || entries_[id.value()].state != state ||
          listed[id.value()]) {
        return absl::InternalError(
            absl::StrCat("page ", id.value(), " is listed twice or in a state it is not in"));
      }
      listed[id.value()] = true;
    }
    return absl::OkStatus();
  };
  if (absl::Status s = check_list(free_, PageState::kFree); !s.ok()) return s;
  PageCount quarantined;
  for (const auto& [owner, ids] : quarantine_) {
    if (absl::Status s = check_list(ids, PageState::kQuarantined); !s.ok()) return s;
    quarantined += PageCount(static_cast<uint32_t>(ids.size()));
  }
  PageCount held;
  for (size_t id = 0; id < entries_.size(); ++id) {
    if (listed[id]) continue;
    if (entries_[id].state != PageState::kHeld) {
      return absl::InternalError(absl::StrCat("page ", id, " is in no list and not held"));
    }
    ++held;
  }
  if (quarantined != quarantined_ || held != held_ || reserved_ > free() ||
      free() + held_ + quarantined_ != total()) {
    return absl::InternalError(absl::StrCat(
        "page counts disagree: total ", total().value(), ", free ", free().value(), ", held ",
        held_.value(), " (counted ", held.value(), "), quarantined ", quarantined_.value(),
        " (counted ", quarantined.value(), "), reserved ", reserved_.value()));
  }
  return absl::OkStatus();
}

}  // namespace folio::cache
