#include "services/cli/page_map.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "services/cli/format.h"
#include "services/cli/table.h"

namespace folio::cli {
using client::CountBetween;
using client::CountPositions;

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
