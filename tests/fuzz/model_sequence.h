// ModelSequence is one sequence as CacheModel restates it, with plain lists.
#ifndef FOLIO_TESTS_FUZZ_MODEL_SEQUENCE_H_
#define FOLIO_TESTS_FUZZ_MODEL_SEQUENCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "services/cache/inspector.h"
#include "tests/fuzz/model_fall.h"

namespace folio::cache {

struct ModelLayer {
  PageList pages;
  std::vector<uint32_t> positions;  // of each resident token
};

struct ModelPlan {
  uint64_t epoch = 0;
  bool compact = false;
  std::vector<std::vector<uint32_t>> keep;    // compact: [layer]
  std::vector<uint32_t> spare;                // compact: [layer]
  std::vector<std::optional<uint32_t>> drop;  // else: [layer]
};

struct ModelSequence {
  WorkerId worker;  // the last one, of an orphan
  LeaseEpoch lease{1};
  std::string token;
  std::optional<int64_t> orphaned;   // since, in seconds
  std::optional<int64_t> claimable;  // an orphan whose worker has gone: since, in seconds
  uint32_t claims_in_vain = 0;       // since it last went further than ever
  uint64_t acks = 0;                 // since it last grew
  uint64_t longest = 0, acks_at_longest = 0;
  bool regained = false;  // after a claim it grew or lost tokens, but went no further than ever
  policy::CacheConfig cache;
  policy::CacheConfig first_cache;  // when it was opened
  ModelFall fall;
  uint64_t prompt = 0, max_new = 0;
  bool optimistic = false;
  WorkerAbilities abilities;
  std::string tenant;
  int32_t priority = 0;
  SteadyTime arrived, due;
  int64_t ready = 0;  // when it last got what it needs for a step
  bool starved = false, asked_back = false, told = false, parked = false;
  // An operator's orders.
  bool pinned = false, park_order = false, close_order = false, told_to_close = false;
  SwapUse swap = SwapUse::kNone;
  std::vector<SwapSlot> slots;
  uint64_t known = 0;  // ids in the record
  uint64_t logical = 0;
  bool compacted = false;
  uint64_t plans = 0;
  std::optional<ModelPlan> plan;
  std::vector<ModelLayer> layers;
  uint64_t window = 0;         // tokens that some layers attend to
  uint64_t stride = 0;         // tokens that leave it at a time
  std::vector<bool> windowed;  // [layer]
  uint64_t ahead = 0;          // the longest chunk of all its workers, 0 for the whole prompt

  void NoSlots() {
    swap = SwapUse::kNone;
    slots.clear();
  }
  // It will be computed again.
  void Forget() {
    for (ModelLayer& layer : layers) layer = {};
    plan.reset();
    logical = acks = 0;
    fall = {};
    compacted = false;
    NoSlots();
  }
  // It grew, or else a plan was acknowledged.
  void Advance(uint64_t to_length) {
    acks = to_length > logical ? 0 : acks + 1;
    logical = to_length;
    if (logical < longest || (logical == longest && acks <= acks_at_longest)) {
      regained |= claims_in_vain > 0;
      return;
    }
    regained = false;
    longest = logical;
    acks_at_longest = acks;
    claims_in_vain = 0;
  }
  // A commit or an acknowledgement shows that the pages are filled.
  void NoteSwappedIn() {
    if (swap == SwapUse::kIn) NoSlots();
  }
  // Whether a worker with such chunks may need more pages of layers with windows.
  bool IsWider(const WorkerAbilities& other) const {
    const uint64_t chunk = other.prefill_ahead.value();
    return window > 0 && ahead > 0 && (chunk == 0 || chunk > ahead);
  }
  bool evicts() const { return cache.policy.spec().index() != 0; }
  bool synchronous() const { return cache.mode == policy::EvictionMode::kSynchronous; }
  uint64_t budget(size_t layer) const { return cache.layer_budget(layer).value(); }
  uint64_t first_budget(size_t layer) const { return first_cache.layer_budget(layer).value(); }
  bool must_compact(size_t layer) const {
    return evicts() && prompt > first_budget(layer) && !compacted;
  }
  // Its prompt is compacted while it is prefilled.
  bool streams() const {
    bool over = false;
    for (size_t layer = 0; layer < layers.size(); ++layer) over |= prompt > first_budget(layer);
    return evicts() && over && cache.compaction == policy::Compaction::kStreamed;
  }
  // The queries at the prompt's end that come in one chunk.
  uint64_t queries() const {
    const auto* diff = std::get_if<policy::QueryDiffSpec>(&cache.policy.spec());
    return diff == nullptr ? 1 : diff->options.window;
  }
  // The first length behind `length` at which its prefill waits.
  uint64_t StopBehind(uint64_t length) const {
    if (!streams()) return prompt;
    uint64_t stop = cache.compaction_stride.value();
    while (stop <= length) stop += cache.compaction_stride.value();
    return stop + queries() <= prompt ? stop : prompt;
  }
  // Its prefill stands where it must be compacted before it continues.
  bool stands() const {
    bool over = false;
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      const uint64_t tokens = windowed[layer] ? logical : layers[layer].positions.size();
      over |= tokens > first_budget(layer);
    }
    return streams() && over && logical > 0 && logical < prompt &&
           StopBehind(logical - 1) == logical;
  }
  bool runs() const { return !orphaned.has_value() && !parked; }
  bool in_prompt(const CacheGeometry& geometry) const {
    return logical < prompt || must_compact(geometry);
  }
  bool must_compact(const CacheGeometry& geometry) const {
    bool must = false;
    for (size_t layer = 0; layer < geometry.num_layers; ++layer) must |= must_compact(layer);
    return must;
  }
};

}  // namespace folio::cache

#endif  // FOLIO_TESTS_FUZZ_MODEL_SEQUENCE_H_
