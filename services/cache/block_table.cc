#include "services/cache/block_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"

namespace folio::cache {

void BlockTable::AppendRange(Position begin, Position end) {
  if (begin == end) return;
  if (last_.end != begin || last_.begin == last_.end) {
    FOLIO_CHECK(last_.end <= begin);
    CloseLast();
    last_.begin = begin;
  }
  last_.end = end;
}

void BlockTable::CloseLast() {
  if (last_.begin < last_.end) closed_.push_back(last_);
  last_ = {};
}

void BlockTable::OpenLast() {
  if (closed_.empty()) return;
  last_ = closed_.back();
  closed_.pop_back();
}

std::vector<PositionRange> BlockTable::positions() const {
  std::vector<PositionRange> ranges = closed_;
  if (last_.begin < last_.end) ranges.push_back(last_);
  return ranges;
}

void BlockTable::Append(Position first, TokenCount count) {
  FOLIO_CHECK(uint64_t{resident_} + count.value() <= capacity());
  AppendRange(first, first + Position(count.value()));
  resident_ += count.value();
}

PageList BlockTable::Compact(absl::Span<const TokenSlot> keep, PageCount spare) {
  CloseLast();
  const std::vector<PositionRange> old = std::exchange(closed_, {});
  size_t range = 0;
  uint32_t range_slot = 0;  // slot of old[range].begin
  for (size_t i = 0; i < keep.size(); ++i) {
    const uint32_t slot = keep[i].value();
    FOLIO_CHECK(slot < resident_ && (i == 0 || keep[i - 1] < keep[i]));
    for (;; ++range) {
      const uint32_t length = (old[range].end - old[range].begin).value();
      if (slot - range_slot < length) break;
      range_slot += length;
    }
    const Position position = old[range].begin + Position(slot - range_slot);
    AppendRange(position, position + Position(1));
  }
  resident_ = static_cast<uint32_t>(keep.size());
  const size_t remaining_pages = (keep.size() + page_tokens_ - 1) / page_tokens_ + spare.value();
  FOLIO_CHECK(remaining_pages <= pages_.size());
  PageList freed(pages_.begin() + static_cast<ptrdiff_t>(remaining_pages), pages_.end());
  pages_.resize(remaining_pages);
  return freed;
}

PageRef BlockTable::Drop(BlockIndex block) {
  const uint32_t begin = block.value() * page_tokens_;
  const uint32_t end = begin + page_tokens_;
  FOLIO_CHECK(end <= resident_);
  CloseLast();
  const auto length = [](const PositionRange& range) { return (range.end - range.begin).value(); };
  // The ranges that hold the block's first and last slot, and the slots at which they begin.
  auto first = closed_.begin();
  uint32_t first_slot = 0;
  for (; first_slot + length(*first) <= begin; ++first) first_slot += length(*first);
  auto last = first;
  uint32_t last_slot = first_slot;
  for (; last_slot + length(*last) < end; ++last) last_slot += length(*last);
  // Their remains before the block and behind it.
  const PositionRange before = {first->begin, first->begin + Position(begin - first_slot)};
  const PositionRange after = {last->begin + Position(end - last_slot), last->end};
  auto next = first;
  if (before.begin < before.end) *next++ = before;
  if (after.begin < after.end && next > last) {
    closed_.insert(next, after);  // the block lay within one range
  } else {
    if (after.begin < after.end) *next++ = after;
    closed_.erase(next, last + 1);
  }
  OpenLast();
  resident_ -= page_tokens_;
  const PageRef page = pages_[block.value()];
  pages_.erase(pages_.begin() + block.value());
  return page;
}

PageList BlockTable::Clear() {
  resident_ = 0;
  closed_.clear();
  last_ = {};
  return std::exchange(pages_, {});
}

absl::Status BlockTable::CheckInvariants() const {
  uint64_t tokens = 0;
  const std::vector<PositionRange> ranges = positions();
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].end <= ranges[i].begin || (i > 0 && ranges[i].begin <= ranges[i - 1].end)) {
      return absl::InternalError(absl::StrCat("positions are not ascending at range ", i));
    }
    tokens += (ranges[i].end - ranges[i].begin).value();
  }
  if (tokens != resident_ || (tokens > capacity() && !pages_.empty())) {
    return absl::InternalError(absl::StrCat("resident length ", resident_, " but ", tokens,
                                            " positions in pages for ", capacity()));
  }
  return absl::OkStatus();
}

}  // namespace folio::cache
