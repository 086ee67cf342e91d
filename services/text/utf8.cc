#include "services/text/utf8.h"

#include <cstdint>

namespace folio {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Form { kWhole, kUnfinished, kBroken };

struct Scan {
  Form form;
  size_t size;  // of the character, of its start so far, or of the bytes to replace
};

// The bytes a lead byte allows in second place; the later ones are always 80..BF.
struct Lead {
  size_t size = 0;  // of the character, or 0 if no character starts with this byte
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

// The character at the front of `text`, which is not empty.
Scan ScanCharacter(absl::string_view text) {
  const Lead lead = LeadOf(static_cast<uint8_t>(text[0]));
  if (lead.size == 0) return {Form::kBroken, 1};
  for (size_t i = 1; i < lead.size; ++i) {
    if (i == text.size()) return {Form::kUnfinished, i};
    const auto byte = static_cast<uint8_t>(text[i]);
    const bool fits = i == 1 ? byte >= lead.low && byte <= lead.high : byte >= 0x80 && byte <= 0xBF;
    if (!fits) return {Form::kBroken, i};
  }
  return {Form::kWhole, lead.size};
}

}  // namespace

std::optional<size_t> FirstInvalidUtf8(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Scan scan = ScanCharacter(text.substr(at));
    if (scan.form != Form::kWhole) return at;
    at += scan.size;
  }
  return std::nullopt;
}

std::string Utf8Assembler::Feed(absl::string_view bytes) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    joined.append(bytes.data(), bytes.size());
    bytes = joined;
    held_.clear();
  }
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Scan scan = ScanCharacter(bytes);
    if (scan.form == Form::kUnfinished) {
      held_.assign(bytes.data(), bytes.size());
      break;
    }
    const absl::string_view piece =
        scan.form == Form::kWhole ? bytes.substr(0, scan.size) : kReplacement;
    text.append(piece.data(), piece.size());
    bytes.remove_prefix(scan.size);
  }
  return text;
}

std::string Utf8Assembler::Flush() {
  if (held_.empty()) return "";
  held_.clear();
  return std::string(kReplacement);
}

std::string LossyUtf8(absl::string_view bytes) {
  Utf8Assembler utf8;
  std::string text = utf8.Feed(bytes);
  return text + utf8.Flush();
}

}  // namespace folio
