#include "services/policy/upper_halves.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "services/base/check.h"
#include "services/policy/score_rows.h"
#include "services/policy/wide.h"

namespace folio::policy {
namespace {

// Entries of a new window on either side of the middle. With pages of 16 tokens the middle moves by
// three entries a decision, so a window serves for dozens of decisions.
constexpr uint32_t kReach = 24;
constexpr uint32_t kGroup = 64;  // tokens

// Bits [begin, begin + count) of the words, for a count of 1 to 64.
uint64_t BitsAt(absl::Span<const uint64_t> words, uint32_t begin, uint32_t count) {
  const uint32_t shift = begin % 64;
  uint64_t bits = words[begin / 64] >> shift;
  if (shift + count > 64) bits |= words[begin / 64 + 1] << (64 - shift);
  return bits & ~uint64_t{0} >> (64 - count);
}

// A list is searched by counting, because the branches of a binary search would be guessed wrong.
struct Comparisons {
  [[gnu::always_inline]] static uint32_t CountBelow(const int64_t* values, uint32_t count,
                                                    int64_t bound) {
    uint64_t below = 0;
    for (uint32_t i = 0; i < count; ++i) below += values[i] < bound ? 1 : 0;
    return static_cast<uint32_t>(below);
  }
};
FOLIO_WIDE uint32_t WideCountBelow(const int64_t* values, uint32_t count, int64_t bound) {
  return Comparisons::CountBelow(values, count, bound);
}

}  // namespace

uint32_t UpperHalves::Half::Find(Place place) const {
  return Wide() ? WideCountBelow(window, length, place)
                : Comparisons::CountBelow(window, length, place);
}

void UpperHalves::Half::Insert(uint32_t at, Place place) {
  std::copy_backward(window + at, window + length, window + length + 1);
  window[at] = place;
  ++length;
}

void UpperHalves::Half::Remove(uint32_t at) {
  std::copy(window + at + 1, window + length, window + at);
  --length;
}

void UpperHalves::Append(const LayerScores& scores) {
  page_tokens_ = scores.page_tokens;
  heads_ = scores.kv_heads;
  // No group of tokens lies across two words.
  width_ = page_tokens_ <= kGroup ? std::bit_ceil(page_tokens_)
                                  : (page_tokens_ + kGroup - 1) / kGroup * kGroup;
  words_ = (size_t{heads_} * width_ + 63) / 64;
  const size_t page_keys = size_t{heads_} * page_tokens_;
  halves_.resize(heads_);
  const uint32_t blocks = scores.tokens.value() / page_tokens_;
  for (uint32_t index = 0; index < blocks; ++index) {
    auto slot = static_cast<uint32_t>(keys_.size() / page_keys);
    if (free_slots_.empty()) {
      keys_.resize(keys_.size() + page_keys);
      bits_.resize(bits_.size() + words_);
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
    }
    int32_t* keys = &keys_[slot * page_keys];
    const uint32_t first = index * page_tokens_;
    const uint32_t rows = std::min(std::max(scores.scored.value(), first) - first, page_tokens_);
    if (rows < page_tokens_) {
      std::fill_n(keys, page_keys, SortKey(-std::numeric_limits<float>::infinity()));
    }
    RowKeys(scores.pages[index], rows, heads_, keys, page_tokens_);
    if (next_serial_ >> (32 - kTokenBits) != 0) Renumber();
    blocks_.push_back({slot, next_serial_++});
  }
}

void UpperHalves::Renumber() {
  next_serial_ = 0;
  for (Block& block : blocks_) block.serial = next_serial_++;
  ranked_ = false;
}

void UpperHalves::Erase(BlockIndex block) {
  const uint32_t index = block.value();
  FOLIO_CHECK(index < blocks_.size());
  if (ranked_ && index < begin_) ranked_ = false;
  if (ranked_ && index < end_) {
    for (uint32_t head = 0; head < heads_; ++head) {
      for (uint32_t token = 0; token < page_tokens_; token += kGroup) {
        Exclude(GroupOf(blocks_[index], head, token), halves_[head]);
      }
    }
    --end_;
  }
  free_slots_.push_back(blocks_[index].slot);
  blocks_.erase(blocks_.begin() + index);
}

void UpperHalves::Clear() {
  blocks_.clear();
  free_slots_.clear();
  keys_.clear();
  bits_.clear();
  next_serial_ = 0;
  ranked_ = false;
}

void UpperHalves::Prefetch(std::optional<BlockIndex> erased) const {
  policy::Prefetch(blocks_.data(), blocks_.size());
  policy::Prefetch(halves_.data(), halves_.size());
  policy::Prefetch(bits_.data(), bits_.size());
  if (!erased.has_value() || erased->value() >= blocks_.size()) return;
  const size_t page_keys = size_t{heads_} * page_tokens_;
  policy::Prefetch(&keys_[blocks_[erased->value()].slot * page_keys], page_keys);
}

void UpperHalves::Rank(uint32_t begin, uint32_t end) {
  FOLIO_CHECK(begin < end && end <= blocks_.size());
  if (!ranked_ || begin != begin_ || end < end_) {
    begin_ = begin;
    end_ = end;
    ranked_ = true;
    for (uint32_t head = 0; head < heads_; ++head) RankAll(head);
    return;
  }
  const uint32_t known = std::exchange(end_, end);
  for (uint32_t head = 0; head < heads_; ++head) {
    bool fits = true;
    for (uint32_t index = known; fits && index < end; ++index) {
      for (uint32_t token = 0; fits && token < page_tokens_; token += kGroup) {
        fits = Include(GroupOf(blocks_[index], head, token), halves_[head]);
      }
    }
    fits ? Balance(head) : RankAll(head);
  }
}

UpperHalves::Group UpperHalves::GroupOf(const Block& block, uint32_t head, uint32_t first_token) {
  const size_t key = (size_t{block.slot} * heads_ + head) * page_tokens_ + first_token;
  const uint32_t bit = head * width_ + first_token;
  return {{&keys_[key], std::min(page_tokens_ - first_token, kGroup)},
          &bits_[block.slot * words_ + bit / 64],
          bit % 64,
          (block.serial << kTokenBits) + first_token};
}

// Compares keys alone, which settles all tokens but a few.
UpperHalves::Sides UpperHalves::SidesOf(const Half& half, const Group& group) {
  const auto high = static_cast<int32_t>(half.high >> 32);
  const auto low = static_cast<int32_t>(half.low >> 32);
  const bool lowest = low == INT32_MIN;
  const TwoMasks above = AboveMasks(group.keys, lowest ? low : low - 1, high);
  return {above.high, (lowest ? group.mask() : above.low) & ~above.high};
}

bool UpperHalves::Include(const Group& group, Half& half) {
  auto [upper, near] = SidesOf(half, group);
  for (; near != 0; near &= near - 1) {
    const auto token = static_cast<uint32_t>(std::countr_zero(near));
    const Place place = group.PlaceOf(token);
    if (place < half.low) continue;
    if (place <= half.high) {
      if (half.length == Half::kLongest) return false;
      const uint32_t at = half.Find(place);
      const bool below = at <= half.middle;
      half.Insert(at, place);
      half.middle += below ? 1 : 0;
      if (below) continue;
    }
    upper |= uint64_t{1} << token;
  }
  half.uppers += static_cast<uint32_t>(std::popcount(upper));
  group.SetBits(upper);
  return true;
}

void UpperHalves::Exclude(const Group& group, Half& half) {
  const uint64_t upper = group.bits();
  half.uppers -= static_cast<uint32_t>(std::popcount(upper));
  for (uint64_t near = SidesOf(half, group).near; near != 0; near &= near - 1) {
    const auto token = static_cast<uint32_t>(std::countr_zero(near));
    const Place place = group.PlaceOf(token);
    if (place < half.low || place > half.high) continue;
    const uint32_t at = half.Find(place);
    FOLIO_DCHECK(at < half.length && half.window[at] == place);
    half.middle -= (upper >> token & 1) != 0 ? 0 : 1;
    half.Remove(at);
  }
}

void UpperHalves::SetBit(Place place, uint32_t head, bool upper) {
  const auto age = static_cast<uint32_t>(place);
  const uint32_t serial = age >> kTokenBits;
  // Without branches, as in Half::Find.
  const Block* block = blocks_.data();
  for (size_t left = blocks_.size(); left > 1;) {
    const size_t half = left / 2;
    block += block[half].serial <= serial ? half : 0;
    left -= half;
  }
  const uint32_t bit = head * width_ + (age & ((1U << kTokenBits) - 1));
  uint64_t& word = bits_[block->slot * words_ + bit / 64];
  const uint64_t mask = uint64_t{1} << bit % 64;
  word = upper ? word | mask : word & ~mask;
}

void UpperHalves::Balance(uint32_t head) {
  Half& half = halves_[head];
  const uint32_t wanted = (end_ - begin_) * page_tokens_ / 2;
  while (half.uppers != wanted) {
    const bool fewer = half.uppers > wanted;
    if (half.middle == (fewer ? half.length : 0)) return RankAll(head);
    if (fewer) {
      SetBit(half.window[half.middle++], head, false);
      --half.uppers;
    } else {
      SetBit(half.window[--half.middle], head, true);
      ++half.uppers;
    }
  }
}

void UpperHalves::RankAll(uint32_t head) {
  Half& half = halves_[head];
  const uint32_t tokens = (end_ - begin_) * page_tokens_;
  const uint32_t wanted = tokens / 2;
  std::vector<int32_t> keys(tokens);
  for (uint32_t index = begin_; index < end_; ++index) {
    const size_t from = (size_t{blocks_[index].slot} * heads_ + head) * page_tokens_;
    std::copy_n(&keys_[from], page_tokens_, &keys[size_t{index - begin_} * page_tokens_]);
  }
  const uint32_t above = wanted - std::min(wanted, kReach);  // tokens above the window
  const uint32_t below = std::min(wanted + kReach, tokens);  // those that are not below it
  const Highest upper = FindHighest(keys, wanted, half.guess);
  SearchGuess guess = half.guess;
  const Highest over = FindHighest(keys, above, guess);
  guess = half.guess;
  const Highest within = FindHighest(keys, below, guess);
  const std::vector<uint64_t> uppers = MaskOf(keys, upper, true);
  const std::vector<uint64_t> overs = MaskOf(keys, over, true);
  const std::vector<uint64_t> withins = MaskOf(keys, within, true);
  half.length = 0;
  for (uint32_t i = 0; i < tokens;) {
    const Group group = GroupOf(blocks_[begin_ + i / page_tokens_], head, i % page_tokens_);
    const auto count = static_cast<uint32_t>(group.keys.size());
    group.SetBits(BitsAt(uppers, i, count));
    uint64_t near = BitsAt(withins, i, count) & ~BitsAt(overs, i, count);
    for (; near != 0; near &= near - 1) {
      half.window[half.length++] = group.PlaceOf(static_cast<uint32_t>(std::countr_zero(near)));
    }
    i += count;
  }
  std::sort(half.window, half.window + half.length);
  half.uppers = wanted;
  half.middle = half.length - (wanted - above);
  // Beyond the last token there is none, so a window that reaches it covers what lies behind.
  const bool lowest = below == tokens || half.length == 0;
  const bool highest = above == 0 || half.length == 0;
  half.low = lowest ? std::numeric_limits<Place>::min() : half.window[0];
  half.high = highest ? std::numeric_limits<Place>::max() : half.window[half.length - 1];
}

}  // namespace folio::policy
