#include "services/client/kept_positions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace folio::client {
namespace {

void Append(uint32_t begin, uint32_t end, Ranges& ranges) {
  if (begin >= end) return;
  if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end = end;
  } else {
    ranges.push_back({begin, end});
  }
}

// Without the positions that are the ones with these indices, [begin, end), among all that are
// kept.
Ranges Without(const Ranges& ranges, uint64_t begin, uint64_t end) {
  Ranges left;
  left.reserve(ranges.size() + 1);
  uint64_t index = 0;
  for (const PositionRange& range : ranges) {
    const uint64_t size = range.end - range.begin;
    const auto first = static_cast<uint32_t>(std::clamp(begin, index, index + size) - index);
    const auto last = static_cast<uint32_t>(std::clamp(end, index, index + size) - index);
    Append(range.begin, range.begin + first, left);
    Append(range.begin + last, range.end, left);
    index += size;
  }
  return left;
}

}  // namespace

uint32_t CountBetween(const Ranges& ranges, uint32_t begin, uint32_t end) {
  uint32_t count = 0;
  for (const PositionRange& range : ranges) {
    const uint32_t from = std::max(range.begin, begin);
    const uint32_t to = std::min(range.end, end);
    if (from < to) count += to - from;
  }
  return count;
}

uint32_t CountPositions(const Ranges& ranges) { return CountBetween(ranges, 0, UINT32_MAX); }

uint32_t LengthAtEnd(const v1::Usage& usage) {
  return usage.prompt_tokens() + std::max(usage.generated_tokens(), 1U) - 1;
}

KeptPositions::KeptPositions(uint32_t layers, uint32_t page_tokens, uint32_t prompt_tokens)
    : page_tokens_(page_tokens), prompt_tokens_(prompt_tokens), length_(prompt_tokens) {
  Ranges all;
  Append(0, prompt_tokens, all);
  kept_.assign(layers, all);
}

void KeptPositions::Extend(uint32_t length) {
  for (Ranges& layer : kept_) Append(length_, length, layer);
  length_ = std::max(length_, length);
}

absl::Status KeptPositions::Apply(const v1::EvictionEvent& event) {
  if (static_cast<size_t>(event.layers_size()) != kept_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("eviction event has ", event.layers_size(),
                                                   " layers, the model ", kept_.size()));
  }
  if (event.step() < 0) {
    for (size_t layer = 0; layer < kept_.size(); ++layer) {
      kept_[layer].clear();
      for (const uint32_t position : event.layers(static_cast<int>(layer)).kept()) {
        Append(position, position + 1, kept_[layer]);
      }
      // A compaction within the prompt does not see the rest of it.
      if (event.prompt_tokens() > 0) Append(event.prompt_tokens(), prompt_tokens_, kept_[layer]);
    }
    return absl::OkStatus();
  }
  // The event of step s comes after token s was fed.
  Extend(prompt_tokens_ + static_cast<uint32_t>(event.step()) + 1);
  for (size_t layer = 0; layer < kept_.size(); ++layer) {
    const int32_t block = event.layers(static_cast<int>(layer)).dropped_block();
    if (block == -1) continue;  // this layer lost nothing
    const int64_t begin = int64_t{block} * page_tokens_;
    const int64_t end = begin + page_tokens_;
    if (block < 0 || end > int64_t{CountPositions(kept_[layer])}) {
      return absl::InvalidArgumentError(absl::StrCat("eviction event of step ", event.step(),
                                                     " drops block ", block, " of layer ", layer,
                                                     ", which is not there"));
    }
    kept_[layer] = Without(kept_[layer], static_cast<uint64_t>(begin), static_cast<uint64_t>(end));
  }
  return absl::OkStatus();
}

}  // namespace folio::client
