#include "services/cache/swap_space.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"

namespace folio::cache {

SwapSlots& SwapSlots::operator=(SwapSlots&& other) noexcept {
  if (this == &other) return *this;
  Truncate(0);
  space_ = std::exchange(other.space_, nullptr);
  slots_ = std::exchange(other.slots_, {});
  return *this;
}

void SwapSlots::Truncate(size_t count) {
  FOLIO_CHECK(count <= slots_.size());
  for (; slots_.size() > count; slots_.pop_back()) space_->free_.push_back(slots_.back());
}

void SwapSlots::Quarantine(WorkerId owner) {
  if (slots_.empty()) return;
  std::vector<SwapSlot>& quarantined = space_->quarantine_[owner];
  quarantined.insert(quarantined.end(), slots_.begin(), slots_.end());
  slots_.clear();
}

SwapSpace::SwapSpace(uint32_t slots) : total_(slots) {
  free_.reserve(slots);
  for (uint32_t slot = slots; slot > 0; --slot) free_.emplace_back(slot - 1);
}

std::optional<SwapSlots> SwapSpace::Take(size_t count) {
  if (count > free_.size()) return std::nullopt;
  const auto first = free_.end() - static_cast<ptrdiff_t>(count);
  std::vector<SwapSlot> taken(free_.rbegin(), free_.rbegin() + static_cast<ptrdiff_t>(count));
  free_.erase(first, free_.end());
  return SwapSlots(this, std::move(taken));
}

std::optional<SwapSlots> SwapSpace::Adopt(std::vector<SwapSlot> slots) {
  std::vector<bool> wanted(total_, false);
  for (const SwapSlot slot : slots) {
    if (slot.value() >= total_ || wanted[slot.value()]) return std::nullopt;
    wanted[slot.value()] = true;
  }
  std::vector<SwapSlot> left;
  for (const SwapSlot slot : free_) {
    if (!wanted[slot.value()]) left.push_back(slot);
  }
  if (left.size() + slots.size() != free_.size()) return std::nullopt;
  free_ = std::move(left);
  return SwapSlots(this, std::move(slots));
}

void SwapSpace::EndQuarantine(WorkerId owner) {
  const auto it = quarantine_.find(owner);
  if (it == quarantine_.end()) return;
  free_.insert(free_.end(), it->second.begin(), it->second.end());
  quarantine_.erase(it);
}

uint32_t SwapSpace::quarantined() const {
  size_t count = 0;
  for (const auto& [owner, slots] : quarantine_) count += slots.size();
  return static_cast<uint32_t>(count);
}

absl::Status SwapSpace::CheckInvariants(const std::vector<const SwapSlots*>& held) const {
  std::vector<bool> seen(total_, false);
  size_t listed = 0;
  bool once = true;
  const auto note = [&](const std::vector<SwapSlot>& slots) {
    for (const SwapSlot slot : slots) {
      once = once && slot.value() < total_ && !seen[slot.value()];
      if (once) seen[slot.value()] = true;
    }
    listed += slots.size();
  };
  note(free_);
  for (const auto& [owner, slots] : quarantine_) note(slots);
  for (const SwapSlots* slots : held) note(slots->all());
  if (once && listed == total_) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("swap slots: ", listed, " of ", total_,
                                          " are free, quarantined or held",
                                          once ? "" : ", and one of them twice"));
}

}  // namespace folio::cache
