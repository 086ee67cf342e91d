#include "services/cli/page_map.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "services/cli/format.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

Ranges ToRanges(absl::Span<const uint32_t> positions) {
  Ranges ranges;
  for (const uint32_t position : positions) {
    if (ranges.empty() || ranges.back().end != position) {
      ranges.push_back({position, position});
    }
    ranges.back().end = position + 1;
  }
  return ranges;
}

uint32_t CountBetween(const Ranges& ranges, uint32_t begin, uint32_t end) {
  uint32_t count = 0;
  for (const PositionRange& range : ranges) {
    const uint32_t from = std::max(range.begin, begin);
    const uint32_t to = std::min(range.end, end);
    if (from < to) count += to - from;
  }
  return count;
}

}  // namespace

KeptPositions::KeptPositions(uint32_t layers, uint32_t page_tokens, uint32_t prompt_tokens)
    : page_tokens_(page_tokens), prompt_tokens_(prompt_tokens), length_(prompt_tokens) {
  std::vector<uint32_t> all(prompt_tokens);
  std::iota(all.begin(), all.end(), 0);
  kept_.assign(layers, all);
}

void KeptPositions::Extend(uint32_t length) {
  for (; length_ < length; ++length_) {
    for (auto& layer : kept_) layer.push_back(length_);
  }
}

absl::Status KeptPositions::Apply(const folio::v1::EvictionEvent& event) {
  if (static_cast<size_t>(event.layers_size()) != kept_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("eviction event has ", event.layers_size(),
                                                   " layers, the model ", kept_.size()));
  }
  if (event.step() < 0) {
    for (size_t layer = 0; layer < kept_.size(); ++layer) {
      const auto& kept = event.layers(static_cast<int>(layer)).kept();
      kept_[layer].assign(kept.begin(), kept.end());
      // A compaction within the prompt does not see the rest of it.
      for (uint32_t next = event.prompt_tokens(); next > 0 && next < prompt_tokens_; ++next) {
        kept_[layer].push_back(next);
      }
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
    if (block < 0 || end > static_cast<int64_t>(kept_[layer].size())) {
      return absl::InvalidArgumentError(absl::StrCat("eviction event of step ", event.step(),
                                                     " drops block ", block, " of layer ", layer,
                                                     ", which is not there"));
    }
    kept_[layer].erase(kept_[layer].begin() + begin, kept_[layer].begin() + end);
  }
  return absl::OkStatus();
}

std::vector<Ranges> KeptPositions::layers() const {
  std::vector<Ranges> result;
  result.reserve(kept_.size());
  for (const auto& layer : kept_) result.push_back(ToRanges(layer));
  return result;
}

uint32_t CountPositions(const Ranges& ranges) { return CountBetween(ranges, 0, UINT32_MAX); }

std::string RenderBar(const Ranges& ranges, uint32_t length, int width, bool utf8) {
  static constexpr std::array<const char*, 5> kBlocks = {" ", "░", "▒", "▓", "█"};
  static constexpr std::array<const char*, 5> kAscii = {" ", ".", ":", "+", "#"};
  const auto& ramp = utf8 ? kBlocks : kAscii;
  const auto columns = std::min<uint64_t>(length, static_cast<uint64_t>(std::max(width, 1)));
  std::string bar;
  for (uint64_t column = 0; column < columns; ++column) {
    const auto begin = static_cast<uint32_t>(column * length / columns);
    const auto end = static_cast<uint32_t>((column + 1) * length / columns);
    const uint32_t kept = CountBetween(ranges, begin, end);
    // Nothing and all have characters of their own, and thirds lie between.
    const uint32_t level = kept == 0             ? 0
                           : kept == end - begin ? 4
                                                 : 1 + 3 * kept / (end - begin + 1);
    bar += ramp[std::min(level, 4U)];
  }
  return bar;
}

std::string RenderMap(const std::vector<Ranges>& layers, absl::Span<const std::string> notes,
                      const MapOptions& options, const Terminal& terminal) {
  if (layers.empty() || options.length == 0) return "";
  struct Group {
    size_t first, last;
  };
  std::vector<Group> groups;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const bool same = layer > 0 && layers[layer] == layers[layer - 1] &&
                      (notes.empty() || notes[layer] == notes[layer - 1]);
    if (same) {
      groups.back().last = layer;
    } else {
      groups.push_back({layer, layer});
    }
  }
  const size_t rows = options.max_rows > 0 ? static_cast<size_t>(options.max_rows) : groups.size();
  if (rows < groups.size()) {
    std::vector<Group> chosen;
    for (size_t i = 0; i < rows; ++i) {
      chosen.push_back(groups[rows == 1 ? 0 : i * (groups.size() - 1) / (rows - 1)]);
    }
    groups = std::move(chosen);
  }
  size_t note_width = 0;
  for (const std::string& note : notes) note_width = std::max(note_width, DisplayWidth(note) + 2);
  const int width = std::clamp(terminal.width - 24 - static_cast<int>(note_width), 16, 100);
  Table table({{"layer", Table::Align::kRight},
               {"kept", Table::Align::kRight},
               {absl::StrCat("positions 0 to ", FormatCount(options.length)), Table::Align::kLeft},
               {notes.empty() ? "" : "pages", Table::Align::kLeft}});
  for (const Group& group : groups) {
    table.Row({group.first == group.last ? absl::StrCat(group.first)
                                         : absl::StrCat(group.first, "-", group.last),
               FormatCount(CountPositions(layers[group.first])),
               absl::StrCat(
                   "|", RenderBar(layers[group.first], options.length, width, terminal.utf8), "|"),
               notes.empty() ? "" : notes[group.first]});
  }
  std::string result = table.Render(terminal);
  if (options.scale) {
    const auto columns = std::min<uint32_t>(options.length, static_cast<uint32_t>(width));
    absl::StrAppend(&result, "one character: ", (options.length + columns - 1) / columns,
                    " positions; ", terminal.utf8 ? "█" : "#", " all kept, ",
                    terminal.utf8 ? "░" : ".", " few, blank none; the prompt ends at ",
                    FormatCount(options.prompt_tokens), "\n");
  }
  return result;
}

}  // namespace folio::cli
