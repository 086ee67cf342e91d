// TileStream brings tiles of keys and values from the pages into panels, one after another, while
// the next one is fetched. Each thread has its own.
#ifndef FOLIO_KERNELS_CPU_FAST_TILE_STREAM_H_
#define FOLIO_KERNELS_CPU_FAST_TILE_STREAM_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/scratch.h"
#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

// Slots [slot, slot + kKeyTile) of one KV head of a sequence. Slots from `end` on count as zeros.
struct TilePlace {
  const uint32_t* table;
  uint32_t kv_head;
  uint32_t slot;
  uint32_t end;
};

// Fills in pointers to the place's keys, with pointers to `zeros` behind its last one, and returns
// how many keys there are.
inline uint32_t GatherKeys(const PoolView& pages, const TilePlace& place, const bf16* zeros,
                           const bf16** keys) {
  const uint32_t head_dim = pages.geometry.head_dim;
  const uint32_t page_tokens = pages.geometry.page_tokens;
  const uint32_t count = std::min(kKeyTile, place.end - place.slot);
  for (uint32_t i = 0; i < count;) {
    const uint32_t slot = place.slot + i;
    const uint32_t offset = slot % page_tokens;
    const bf16* key = pages.keys(place.table[slot / page_tokens]) +
                      (size_t{place.kv_head} * page_tokens + offset) * head_dim;
    const uint32_t stop = std::min(count, i + page_tokens - offset);
    for (; i < stop; ++i, key += head_dim) keys[i] = key;
  }
  std::fill(keys + count, keys + kKeyTile, zeros);
  return count;
}

class TileStream {
 public:
  // Before the first tile of a call.
  void Prepare(const KernelTable& kernels, const PoolView& pages) {
    kernels_ = &kernels;
    pages_ = &pages;
    const uint32_t head_dim = pages.geometry.head_dim;
    keys_.Get(size_t{kKeyTile} * head_dim / 2);
    values_.Get(size_t{kKeyTile / 2} * AccStride(head_dim, kernels.lanes));
    std::fill_n(zeros_.Get(head_dim), head_dim, bf16{});
  }

  // The tile that Next packs first.
  void Start(const TilePlace& place) { Gather(place, rows_[current_]); }

  // Packs the tile named last. `following`, unless null, is fetched meanwhile and is packed by the
  // next call.
  void Next(const TilePlace* following) {
    const TileRows& now = NextKeys(following);
    next_values_ = following != nullptr ? rows_[current_].values : nullptr;
    kernels_->pack_values({now.values, nullptr, pages_->geometry.head_dim, values_.Get(0)});
  }

  // The same without values.
  void NextKeysAlone(const TilePlace* following) { NextKeys(following); }

  const uint32_t* keys() { return keys_.Get(0); }
  const uint32_t* values() { return values_.Get(0); }
  // Values of the following tile, which the kernel fetches while it computes, or null.
  const bf16* const* next_values() const { return next_values_; }

 private:
  struct TileRows {
    const bf16* keys[kKeyTile];
    const bf16* values[kKeyTile];
  };

  const TileRows& NextKeys(const TilePlace* following) {
    const TileRows& now = rows_[current_];
    current_ = 1 - current_;
    TileRows& after = rows_[current_];
    if (following != nullptr) Gather(*following, after);
    kernels_->pack_keys({now.keys, following != nullptr ? after.keys : nullptr,
                         pages_->geometry.head_dim, keys_.Get(0)});
    return now;
  }

  void Gather(const TilePlace& place, TileRows& rows) {
    const uint32_t count = GatherKeys(*pages_, place, zeros_.Get(0), rows.keys);
    const size_t to_value = pages_->values(0) - pages_->keys(0);
    for (uint32_t i = 0; i < count; ++i) rows.values[i] = rows.keys[i] + to_value;
    std::fill(rows.values + count, rows.values + kKeyTile, zeros_.Get(0));
  }

  const KernelTable* kernels_ = nullptr;
  const PoolView* pages_ = nullptr;
  Scratch<uint32_t> keys_;
  Scratch<uint32_t> values_;
  Scratch<bf16> zeros_;
  TileRows rows_[2];
  int current_ = 0;
  const bf16* const* next_values_ = nullptr;
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_TILE_STREAM_H_
