// SwapSpace gives out the slots of the swap memory, where the pages of parked sequences lie until
// there is room in the pool again. A slot holds one page and its scores. The memory itself belongs
// to the manager, and workers copy.
//
// A slot that a lost worker's process could still write is quarantined, as a page would be.
// Thread-compatible, guarded by the coordinator's lock.
#ifndef FOLIO_SERVICES_CACHE_SWAP_SPACE_H_
#define FOLIO_SERVICES_CACHE_SWAP_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "services/base/ids.h"

namespace folio::cache {

class SwapSpace;

// SwapSlots is slots that are taken. Move-only. The destructor gives them back. Must not outlive
// the space.
class SwapSlots {
 public:
  SwapSlots() = default;
  SwapSlots(SwapSlots&& other) noexcept
      : space_(std::exchange(other.space_, nullptr)), slots_(std::exchange(other.slots_, {})) {}
  SwapSlots& operator=(SwapSlots&& other) noexcept;
  ~SwapSlots() { Truncate(0); }

  const std::vector<SwapSlot>& all() const { return slots_; }
  size_t size() const { return slots_.size(); }
  // Gives back all but the first `count`, of which there are as many at least.
  void Truncate(size_t count);
  // Gives up all. They are free when `owner`, which could still write them, is known to have ended.
  void Quarantine(WorkerId owner);

 private:
  friend class SwapSpace;
  SwapSlots(SwapSpace* space, std::vector<SwapSlot> slots)
      : space_(space), slots_(std::move(slots)) {}

  SwapSpace* space_ = nullptr;
  std::vector<SwapSlot> slots_;
};

// SwapUse says what a sequence's slots of the swap memory are for.
enum class SwapUse : uint8_t {
  kNone,     // there are none
  kOffered,  // its worker may copy its pages to them, before it parks the sequence
  kOut,      // it is parked, and they have its contents
  kIn,       // its worker copies them into new pages, which do not count before that is done
};

struct SequenceSwap {
  SwapUse use = SwapUse::kNone;
  SwapSlots slots;  // from kOut on one for each page with tokens, in the order of layers and tables
};

class SwapSpace {
 public:
  explicit SwapSpace(uint32_t slots);
  SwapSpace(const SwapSpace&) = delete;
  SwapSpace& operator=(const SwapSpace&) = delete;

  // Nullopt if fewer are free. The slots that were given back last come first, because unused ones
  // then never take memory of the machine.
  std::optional<SwapSlots> Take(size_t count);
  // These slots, which a space before this one gave out. Nullopt if one of them is not free here or
  // is named twice. O(slots of the space).
  std::optional<SwapSlots> Adopt(std::vector<SwapSlot> slots);
  // The slots quarantined for `owner` become free.
  void EndQuarantine(WorkerId owner);

  uint32_t total() const { return total_; }
  uint32_t free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t quarantined() const;
  // Taken and not given back.
  uint32_t held() const { return total() - free() - quarantined(); }

  // INTERNAL unless each slot is free, quarantined or among `held`, once. O(slots).
  absl::Status CheckInvariants(const std::vector<const SwapSlots*>& held) const;

 private:
  friend class SwapSlots;

  const uint32_t total_;
  std::vector<SwapSlot> free_;  // a stack
  std::map<WorkerId, std::vector<SwapSlot>> quarantine_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SWAP_SPACE_H_
