#include "services/cache/block_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/check.h"

namespace folio::cache {

void BlockTable::AppendRun(Position begin, Position end) {
  if (begin == end) return;
  if (!runs_.empty() && runs_.back().end == begin) {
    runs_.back().end = end;
  } else {
    FOLIO_CHECK(runs_.empty() || runs_.back().end < begin);
    runs_.push_back({begin, end});
  }
}

void BlockTable::Append(Position first, TokenCount count) {
  FOLIO_CHECK(uint64_t{resident_} + count.value() <= capacity());
  AppendRun(first, first + Position(count.value()));
  resident_ += count.value();
}

PageList BlockTable::Compact(absl::Span<const SlotIndex> keep, PageCount spare) {
  const std::vector<PositionRange> old = std::exchange(runs_, {});
  size_t run = 0;
  uint32_t run_slot = 0;  // slot of old[run].begin
  for (size_t i = 0; i < keep.size(); ++i) {
    const uint32_t slot = keep[i].value();
    FOLIO_CHECK(slot < resident_ && (i == 0 || keep[i - 1] < keep[i]));
    for (;; ++run) {
      const uint32_t length = (old[run].end - old[run].begin).value();
      if (slot - run_slot < length) break;
      run_slot += length;
    }
    const Position position = old[run].begin + Position(slot - run_slot);
    AppendRun(position, position + Position(1));
  }
  resident_ = static_cast<uint32_t>(keep.size());
  const size_t stay = (keep.size() + page_tokens_ - 1) / page_tokens_ + spare.value();
  FOLIO_CHECK(stay <= pages_.size());
  PageList freed(pages_.begin() + static_cast<ptrdiff_t>(stay), pages_.end());
  pages_.resize(stay);
  return freed;
}

PageRef BlockTable::Drop(BlockIndex block) {
  const uint32_t begin = block.value() * page_tokens_;
  const uint32_t end = begin + page_tokens_;
  FOLIO_CHECK(end <= resident_);
  const std::vector<PositionRange> old = std::exchange(runs_, {});
  uint32_t slot = 0;
  for (const PositionRange& run : old) {
    const uint32_t run_end = slot + (run.end - run.begin).value();
    const auto position = [&](uint32_t s) { return run.begin + Position(s - slot); };
    // What lies before the block, and what lies behind it.
    if (slot < begin) AppendRun(run.begin, position(std::min(run_end, begin)));
    if (run_end > end) AppendRun(position(std::max(slot, end)), run.end);
    slot = run_end;
  }
  resident_ -= page_tokens_;
  const PageRef page = pages_[block.value()];
  pages_.erase(pages_.begin() + block.value());
  return page;
}

PageList BlockTable::Clear() {
  resident_ = 0;
  runs_.clear();
  return std::exchange(pages_, {});
}

absl::Status BlockTable::CheckInvariants() const {
  uint64_t tokens = 0;
  for (size_t i = 0; i < runs_.size(); ++i) {
    if (runs_[i].end <= runs_[i].begin || (i > 0 && runs_[i].begin <= runs_[i - 1].end)) {
      return absl::InternalError(absl::StrCat("positions are not ascending at run ", i));
    }
    tokens += (runs_[i].end - runs_[i].begin).value();
  }
  if (tokens != resident_ || tokens > capacity()) {
    return absl::InternalError(absl::StrCat("resident length ", resident_, " but ", tokens,
                                            " positions in pages for ", capacity()));
  }
  return absl::OkStatus();
}

}  // namespace folio::cache
