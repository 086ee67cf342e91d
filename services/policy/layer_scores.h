// LayerScores is what a policy sees of a layer, and Limits is what it must respect there.
#ifndef FOLIO_SERVICES_POLICY_LAYER_SCORES_H_
#define FOLIO_SERVICES_POLICY_LAYER_SCORES_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/base/layer_range.h"

namespace folio::policy {

// LayerScores is a view of one layer's resident tokens and of their scores, page by page as they
// lie on the score board. `pages[b]` points at `float[page_tokens][kv_heads]` of block b, and only
// the first `tokens` rows over all blocks have a meaning. The memory must outlive the call.
struct LayerScores {
  absl::Span<const float* const> pages = {};
  // So many of the oldest blocks are left out of `pages`, because their scores are kept. Only
  // KeptScores::Update may read such a view.
  uint32_t kept_blocks = 0;
  // The board's second channel, for PolicyTraits::prompt_scores. It is filled for the decision at
  // the prompt's end and empty afterwards.
  absl::Span<const float* const> prompt_pages = {};
  uint32_t page_tokens = 16;
  uint32_t kv_heads = 1;
  TokenCount tokens = {};
  // How many of the oldest tokens have a row on the board. These are the prompt's tokens if scores
  // are written at its end, the tokens of full pages if they are written when a page fills, and all
  // tokens otherwise.
  TokenCount scored = {};
  LayerIndex layer = {};
  // Stretches of the text with a quota each (quotas.h), by the slot behind each. Empty without.
  absl::Span<const TokenSlot> stretch_ends = {};
  // Tokens that the model has seen. In decode it differs at every decision of a sequence.
  TokenCount logical_length = {};

  // The same view, of the second channel.
  LayerScores prompt() const {
    LayerScores second = *this;
    second.pages = prompt_pages;
    return second;
  }

  // The row of a slot: `kv_heads` floats.
  absl::Span<const float> row(TokenSlot slot) const {
    const float* page = pages[slot.value() / page_tokens - kept_blocks];
    return {page + size_t{slot.value() % page_tokens} * kv_heads, kv_heads};
  }
};

// Layers that decide together. They hold the same tokens in the same slots, and differ in `pages`,
// `prompt_pages`, `kept_blocks` and `layer` alone. A group of one layer decides by itself.
using LayerGroup = absl::Span<const LayerScores>;

// The blocks [begin, end).
struct BlockRange {
  uint32_t begin = 0;
  uint32_t end = 0;

  bool contains(uint32_t block) const { return begin <= block && block < end; }
};

// Limits are what every policy must respect in a layer. Counts are multiples of the page.
struct Limits {
  TokenCount budget;
  TokenCount sink;       // the first tokens, always kept
  TokenCount recent;     // the last tokens, always kept
  BlockRange held = {};  // blocks that decode keeps too, which may overlap the others
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_LAYER_SCORES_H_
