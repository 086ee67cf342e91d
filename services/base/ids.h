// StrongInt gives ids and counts types of their own, so that a page id cannot be passed as a layer.
// Construction and reading are explicit, as in `PageId page(3)` and `page.value()`.
#ifndef FOLIO_SERVICES_BASE_IDS_H_
#define FOLIO_SERVICES_BASE_IDS_H_

#include <compare>
#include <cstdint>
#include <ostream>
#include <utility>

namespace folio {

// An integer that converts to nothing. Ordered, hashable (absl), incrementable.
template <typename Tag, typename Rep>
class StrongInt {
 public:
  using rep = Rep;

  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }

  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;
  friend constexpr bool operator==(StrongInt, StrongInt) = default;

  constexpr StrongInt& operator++() {
    ++value_;
    return *this;
  }
  constexpr StrongInt& operator+=(StrongInt other) {
    value_ += other.value_;
    return *this;
  }
  constexpr StrongInt& operator-=(StrongInt other) {
    value_ -= other.value_;
    return *this;
  }
  friend constexpr StrongInt operator+(StrongInt a, StrongInt b) { return a += b; }
  friend constexpr StrongInt operator-(StrongInt a, StrongInt b) { return a -= b; }

  template <typename H>
  friend H AbslHashValue(H h, StrongInt id) {
    return H::combine(std::move(h), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, StrongInt id) { return out << +id.value_; }

 private:
  Rep value_ = 0;
};

using PageId = StrongInt<struct PageIdTag, uint32_t>;          // index into the pool
using SwapSlot = StrongInt<struct SwapSlotTag, uint32_t>;      // place of a page in swap memory
using Generation = StrongInt<struct GenerationTag, uint32_t>;  // times a page was given out
using LayerIndex = StrongInt<struct LayerIndexTag, uint32_t>;
using BlockIndex = StrongInt<struct BlockIndexTag, uint32_t>;  // entry of one layer's table
using TokenSlot = StrongInt<struct TokenSlotTag, uint32_t>;    // token's place in one layer's table
using Position = StrongInt<struct PositionTag, uint32_t>;      // logical position of a token
using TokenId = StrongInt<struct TokenIdTag, uint32_t>;        // vocabulary entry
using TokenCount = StrongInt<struct TokenCountTag, uint32_t>;
using PageCount = StrongInt<struct PageCountTag, uint32_t>;
using SequenceId = StrongInt<struct SequenceIdTag, uint64_t>;
using LeaseEpoch = StrongInt<struct LeaseEpochTag, uint32_t>;
using PlanEpoch = StrongInt<struct PlanEpochTag, uint64_t>;
using WorkerId = StrongInt<struct WorkerIdTag, uint64_t>;
using Rank = StrongInt<struct RankTag, uint32_t>;  // of a tensor-parallel group, which 0 leads

// A page and the number of times it had been given out when its holder got it.
struct PageRef {
  PageId page;
  Generation generation;
  friend constexpr bool operator==(const PageRef&, const PageRef&) = default;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_IDS_H_
