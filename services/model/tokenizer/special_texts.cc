#include "services/model/tokenizer/special_texts.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"

namespace folio::model {
namespace {

constexpr uint32_t kFirstMark = 0xE000;  // the private use area of the basic plane
constexpr uint32_t kMarks = 6400;
constexpr size_t kMarkBytes = 3;

// The length of the character that begins with this byte.
size_t CharacterBytes(char first) {
  const auto byte = static_cast<uint8_t>(first);
  if (byte >= 0xF0) return 4;
  if (byte >= 0xE0) return 3;
  return byte >= 0xC0 ? 2 : 1;
}

// The three bytes of a character from U+0800 to U+FFFF.
std::string Utf8(uint32_t character) {
  return {static_cast<char>(0xE0 | character >> 12),
          static_cast<char>(0x80 | (character >> 6 & 0x3F)),
          static_cast<char>(0x80 | (character & 0x3F))};
}

}  // namespace

SpecialTexts::SpecialTexts(absl::Span<const std::string> texts) {
  for (const std::string& text : texts) {
    if (text.empty() || CharacterBytes(text[0]) >= text.size()) continue;
    by_first_byte_[static_cast<uint8_t>(text[0])].push_back(text);
  }
}

bool SpecialTexts::StartsAt(absl::string_view text, size_t offset) const {
  const std::vector<std::string>& candidates = by_first_byte_[static_cast<uint8_t>(text[offset])];
  return std::any_of(candidates.begin(), candidates.end(), [&](const std::string& special) {
    return absl::StartsWith(text.substr(offset), special);
  });
}

bool SpecialTexts::In(absl::string_view text) const {
  for (size_t i = 0; i < text.size(); ++i) {
    if (StartsAt(text, i)) return true;
  }
  return false;
}

std::string SpecialTexts::Marked(absl::string_view text, absl::string_view mark) const {
  std::string marked;
  marked.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = std::min(CharacterBytes(text[i]), text.size() - i);
    marked.append(text.data() + i, bytes);
    if (StartsAt(text, i)) marked.append(mark.data(), mark.size());
    i += bytes;
  }
  return marked;
}

std::optional<std::string> UnusedMark(absl::Span<const absl::string_view> texts) {
  std::vector<bool> used(kMarks, false);
  for (const absl::string_view text : texts) {
    for (size_t i = 0; i + kMarkBytes <= text.size(); ++i) {
      if (CharacterBytes(text[i]) != kMarkBytes) continue;
      const auto bits = [&](size_t byte, uint32_t mask) {
        return static_cast<uint8_t>(text[i + byte]) & mask;
      };
      const uint32_t character = bits(0, 0x0F) << 12 | bits(1, 0x3F) << 6 | bits(2, 0x3F);
      if (character >= kFirstMark && character < kFirstMark + kMarks) {
        used[character - kFirstMark] = true;
      }
    }
  }
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused == used.end()) return std::nullopt;
  return Utf8(kFirstMark + static_cast<uint32_t>(unused - used.begin()));
}

std::vector<size_t> RemoveMarks(absl::string_view mark, std::string& text) {
  std::vector<size_t> places;
  std::string rest;
  size_t begin = 0;
  const absl::string_view all = text;
  for (size_t at = all.find(mark); at != std::string::npos; at = all.find(mark, begin)) {
    rest.append(text, begin, at - begin);
    places.push_back(rest.size());
    begin = at + mark.size();
  }
  rest.append(text, begin);
  text = std::move(rest);
  return places;
}

}  // namespace folio::model
