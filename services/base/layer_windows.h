// LayerWindows says which layers of a model attend to a window of latest tokens only, and which of
// a sequence's first tokens no later token of such a layer attends to. Their pages are given back,
// and manager and worker do that at the same lengths without a message.
//
// They are given back a stride at a time, because a kernel reads the keys of a table in tiles that
// begin with its first page. So a token's tiles do not depend on how much of its window's past is
// still there, and neither do the bits of its attention.
#ifndef FOLIO_SERVICES_BASE_LAYER_WINDOWS_H_
#define FOLIO_SERVICES_BASE_LAYER_WINDOWS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace folio {

// No model comes near so many layers.
inline constexpr uint32_t kMaxLayers = 1024;

// Plain data that is compared and copied with the geometry of a cache.
class LayerWindows {
 public:
  constexpr LayerWindows() = default;
  // A token attends to `tokens` tokens, itself among them, and `stride` is in tokens and a multiple
  // of a page. Both are at least 1, or 0 if no layer has a window.
  constexpr LayerWindows(uint32_t tokens, uint32_t stride) : tokens_(tokens), stride_(stride) {}

  // Precondition: `layer` < kMaxLayers.
  constexpr void Add(size_t layer) { layers_[layer / 64] |= uint64_t{1} << layer % 64; }

  constexpr uint32_t tokens() const { return tokens_; }
  constexpr uint32_t stride() const { return stride_; }
  constexpr bool any() const { return tokens_ != 0; }
  constexpr bool contains(size_t layer) const {
    return (layers_[layer / 64] >> layer % 64 & 1) != 0;
  }

  // Tokens at the front of a sequence of `length` that the layer holds no more. They are a multiple
  // of the stride, and change only when a page fills, because nothing else of a sequence's pages
  // changes more often. The newest token always stays.
  constexpr uint32_t TokensBehind(size_t layer, uint32_t length, uint32_t page_tokens) const {
    if (!contains(layer)) return 0;
    const uint32_t full = length - length % page_tokens;
    const uint32_t behind = full - std::min(full, tokens_);
    return behind - behind % stride_;
  }
  // Pages at the front of a layer with `resident` of these tokens that its window has passed.
  // Precondition for a layer with a window: it lacks whole pages at the front, and nothing else.
  constexpr uint32_t PagesPassed(size_t layer, uint32_t length, uint32_t resident,
                                 uint32_t page_tokens) const {
    const uint32_t behind = TokensBehind(layer, length, page_tokens);
    const uint32_t gone = length - resident;
    return behind > gone ? (behind - gone) / page_tokens : 0;
  }
  // The most tokens in full pages that such a layer holds between two steps of decode.
  constexpr uint64_t MostFullTokens(uint32_t page_tokens) const {
    return (uint64_t{tokens_} + stride_ - 1) / page_tokens * page_tokens;
  }

  friend constexpr bool operator==(const LayerWindows&, const LayerWindows&) = default;

 private:
  uint32_t tokens_ = 0;
  uint32_t stride_ = 0;
  std::array<uint64_t, kMaxLayers / 64> layers_ = {};
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_LAYER_WINDOWS_H_
