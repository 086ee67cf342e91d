#include "services/cache/block_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"

namespace folio::cache {

void BlockTable::Scatter(Block& block, uint32_t tokens) {
  uint32_t place = static_cast<uint32_t>(scattered_.size());
  if (free_places_.empty()) {
    scattered_.resize(scattered_.size() + page_tokens_);
  } else {
    place = free_places_.back();
    free_places_.pop_back();
  }
  for (uint32_t i = 0; i < tokens; ++i) scattered_[place + i] = block.first + Position(i);
  block.place = place;
}

void BlockTable::AppendOne(Position position) {
  const uint32_t room = Room();
  ++resident_;
  if (room == 0) {
    blocks_.push_back({position});
    return;
  }
  const uint32_t offset = page_tokens_ - room;
  Block& block = blocks_.back();
  if (block.place == Block::kInARow) {
    if (position == block.first + Position(offset)) return;
    Scatter(block, offset);
  }
  scattered_[block.place + offset] = position;
}

Position BlockTable::positions_end() const {
  if (resident_ == 0) return Position(0);
  return PositionOf(blocks_.back(), page_tokens_ - Room() - 1) + Position(1);
}

TokenCount BlockTable::CountBefore(Position end) const {
  const auto begins_before = [&](const Block& block) { return PositionOf(block, 0) < end; };
  const auto behind = std::partition_point(blocks_.begin(), blocks_.end(), begins_before);
  if (behind == blocks_.begin()) return TokenCount(0);
  const auto whole = static_cast<uint32_t>(behind - blocks_.begin() - 1);
  uint32_t slot = whole * page_tokens_;
  const uint32_t last = std::min(resident_, slot + page_tokens_);
  while (slot < last && PositionOf(blocks_[whole], slot % page_tokens_) < end) ++slot;
  return TokenCount(slot);
}

std::vector<PositionRange> BlockTable::positions() const {
  std::vector<PositionRange> ranges;
  for (uint32_t slot = 0; slot < resident_; ++slot) {
    const Position position = PositionOf(blocks_[slot / page_tokens_], slot % page_tokens_);
    if (ranges.empty() || ranges.back().end != position) ranges.push_back({position, position});
    ranges.back().end = position + Position(1);
  }
  return ranges;
}

void BlockTable::Append(Position first, TokenCount count) {
  FOLIO_CHECK(uint64_t{resident_} + count.value() <= capacity());
  FOLIO_CHECK(count.value() == 0 || positions_end() <= first);
  for (uint32_t done = 0; done < count.value();) {
    AppendOne(first + Position(done++));
    // The rest of a block in a row needs no note.
    if (blocks_.back().place != Block::kInARow) continue;
    const uint32_t more = std::min(Room(), count.value() - done);
    resident_ += more;
    done += more;
  }
}

PageList BlockTable::Compact(absl::Span<const TokenSlot> keep, PageCount spare) {
  // The positions of a prompt are without gaps until it is compacted.
  const Position base = resident_ == 0 ? Position(0) : PositionOf(blocks_[0], 0);
  const bool contiguous = (positions_end() - base).value() == resident_;
  const std::vector<Block> old_blocks = std::exchange(blocks_, {});
  const std::vector<Position> old_scattered = std::exchange(scattered_, {});
  const uint32_t end = std::exchange(resident_, static_cast<uint32_t>(keep.size()));
  free_places_.clear();
  blocks_.reserve(keep.size() / page_tokens_ + 1);
  scattered_.resize(blocks_.capacity() * page_tokens_);
  uint32_t place = 0;
  // The old block that the next slot is in, and its first slot.
  const Block* block = old_blocks.data();
  uint32_t begin = 0;
  const auto position_of = [&](uint32_t slot) {
    for (; slot - begin >= page_tokens_; begin += page_tokens_) ++block;
    return block->place == Block::kInARow ? block->first + Position(slot - begin)
                                          : old_scattered[block->place + slot - begin];
  };
  for (size_t at = 0; at < keep.size(); at += page_tokens_) {
    const auto kept = keep.subspan(at, page_tokens_);
    Position* const positions = &scattered_[place];
    bool ascends = at == 0 || keep[at - 1] < kept[0];
    for (size_t i = 1; i < kept.size(); ++i) ascends &= kept[i - 1] < kept[i];
    FOLIO_CHECK(ascends && kept.back().value() < end);
    if (contiguous) {
      for (size_t i = 0; i < kept.size(); ++i) positions[i] = base + Position(kept[i].value());
    } else {
      for (size_t i = 0; i < kept.size(); ++i) positions[i] = position_of(kept[i].value());
    }
    const Position span = positions[kept.size() - 1] - positions[0];
    const bool in_a_row = span.value() + 1 == kept.size();
    blocks_.push_back({positions[0], in_a_row ? Block::kInARow : place});
    place += in_a_row ? 0 : page_tokens_;
  }
  scattered_.resize(place);
  const size_t remaining_pages = (keep.size() + page_tokens_ - 1) / page_tokens_ + spare.value();
  FOLIO_CHECK(remaining_pages <= pages_.size());
  PageList freed(pages_.begin() + static_cast<ptrdiff_t>(remaining_pages), pages_.end());
  pages_.resize(remaining_pages);
  return freed;
}

PageList BlockTable::Drop(BlockIndex first, uint32_t blocks) {
  const uint64_t end = uint64_t{first.value()} + blocks;
  FOLIO_CHECK(end * page_tokens_ <= resident_);
  const auto from = blocks_.begin() + first.value();
  for (auto block = from; block != from + blocks; ++block) {
    if (block->place != Block::kInARow) free_places_.push_back(block->place);
  }
  blocks_.erase(from, from + blocks);
  resident_ -= blocks * page_tokens_;
  const auto page = pages_.begin() + first.value();
  PageList pages(page, page + blocks);
  pages_.erase(page, page + blocks);
  return pages;
}

PageList BlockTable::Clear() {
  resident_ = 0;
  blocks_.clear();
  scattered_.clear();
  free_places_.clear();
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
  const size_t in_a_row =
      static_cast<size_t>(std::count_if(blocks_.begin(), blocks_.end(), [](const Block& one) {
        return one.place == Block::kInARow;
      }));
  if ((blocks_.size() - in_a_row + free_places_.size()) * page_tokens_ != scattered_.size()) {
    return absl::InternalError(absl::StrCat("places for the positions of ", blocks_.size(),
                                            " blocks are lost or held twice"));
  }
  if (tokens != resident_ || (tokens > capacity() && !pages_.empty())) {
    return absl::InternalError(absl::StrCat("resident length ", resident_, " but ", tokens,
                                            " positions in pages for ", capacity()));
  }
  return absl::OkStatus();
}

}  // namespace folio::cache
