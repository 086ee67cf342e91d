// UpperHalves keeps, for each KV head, which tokens of a layer's full blocks it ranks in the upper
// half of a range of them. KVCrush compares blocks by these bits (see kv_crush.h). Between two
// decisions one block goes and one comes, so few tokens change halves, and only those near the
// middle of the order are looked at.
//
// For each head a window holds the tokens near the middle, sorted. A token that comes or goes is
// compared with the window's ends, and the middle moves over a few entries. When it leaves the
// window, a new one is made from all keys. Tokens are ordered by score and then by age, the newer
// higher, so that none are equal. Thread-compatible.
#ifndef FOLIO_SERVICES_POLICY_UPPER_HALVES_H_
#define FOLIO_SERVICES_POLICY_UPPER_HALVES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "services/policy/key_search.h"
#include "services/policy/policy.h"

namespace folio::policy {

class UpperHalves {
 public:
  // Adds all full blocks of the view behind those that it holds. Tokens without a row are lowest.
  // The view must have the same page size and heads in every call.
  void Append(const LayerScores& scores);
  void Erase(BlockIndex block);
  void Clear();

  // Brings what the next change reads into the processor's caches. The first is an Erase of that
  // block, if one is given.
  void Prefetch(std::optional<BlockIndex> erased) const;

  // Ranks the tokens of blocks [begin, end). The upper half is floor(n / 2) of n tokens.
  void Rank(uint32_t begin, uint32_t end);
  // The bits of a block of that range, until the next change: bit i % 64 of word i / 64 is for the
  // head and token of i = head * width() + token. Other bits are 0.
  absl::Span<const uint64_t> bits(BlockIndex block) const {
    return {&bits_[blocks_[block.value()].slot * words_], words_};
  }
  size_t words() const { return words_; }
  uint32_t width() const { return width_; }
  uint32_t heads() const { return heads_; }

 private:
  // A token's place in a head's order: its key, then the serial number of its block, then its
  // number in the block.
  using Place = int64_t;
  static constexpr uint32_t kTokenBits = 10;
  struct Block {
    uint32_t slot;    // where its keys and bits are
    uint32_t serial;  // grows with each block
  };
  // The halves of a layer lie in one piece of memory, because they are in no cache when a decision
  // comes to them.
  struct Half {
    static constexpr uint32_t kLongest = 88;
    Place low = 0;
    Place high = 0;
    uint32_t length = 0;  // of the window
    uint32_t middle = 0;  // the entries from here on are in the upper half
    uint32_t uppers = 0;  // tokens of the range in the upper half
    SearchGuess guess;
    Place window[kLongest];  // ascending, all tokens of the range from `low` to `high`

    // The first entry that is not below the place.
    uint32_t Find(Place place) const;
    void Insert(uint32_t at, Place place);
    void Remove(uint32_t at);
  };

  // Up to 64 tokens of a block, as one head sees them: their keys, their bits in one word, and the
  // age of the first.
  struct Group {
    absl::Span<const int32_t> keys;
    uint64_t* word;
    uint32_t shift;
    uint32_t age;  // of the first token

    Place PlaceOf(uint32_t token) const { return (Place{keys[token]} << 32) | (age + token); }
    uint64_t mask() const { return ~uint64_t{0} >> (64 - keys.size()); }
    uint64_t bits() const { return *word >> shift & mask(); }
    void SetBits(uint64_t bits) const { *word = (*word & ~(mask() << shift)) | bits << shift; }
  };
  Group GroupOf(const Block& block, uint32_t head, uint32_t first_token);
  // The tokens of a group beside a head's window.
  struct Sides {
    uint64_t above;  // certainly
    uint64_t near;   // those that may lie in it, and at any rate all that do
  };
  static Sides SidesOf(const Half& half, const Group& group);

  void SetBit(Place place, uint32_t head, bool upper);
  // Gives the blocks new serial numbers, before these run out.
  void Renumber();
  // False if the window is full: then the head must be ranked again.
  static bool Include(const Group& group, Half& half);
  static void Exclude(const Group& group, Half& half);
  // Moves the middle to where it should be.
  void Balance(uint32_t head);
  // Ranks all tokens of the range again.
  void RankAll(uint32_t head);

  uint32_t page_tokens_ = 0;
  uint32_t heads_ = 0;
  uint32_t width_ = 0;         // bits of a head, a divisor or a multiple of a word's
  size_t words_ = 0;           // of the bits of a block
  std::vector<Block> blocks_;  // in table order
  std::vector<uint32_t> free_slots_;
  std::vector<int32_t> keys_;   // [slot][head][token]
  std::vector<uint64_t> bits_;  // [slot][word]
  uint32_t next_serial_ = 0;
  // The range, if `ranked_`.
  bool ranked_ = false;
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
  std::vector<Half> halves_;  // [head]
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_UPPER_HALVES_H_
