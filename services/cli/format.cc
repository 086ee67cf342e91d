#include "services/cli/format.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/client/policy_text.h"

namespace folio::cli {

std::string FormatCount(uint64_t value) {
  const std::string digits = absl::StrCat(value);
  std::string result;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result;
}

std::string FormatCount(uint64_t value, absl::string_view thing) {
  return absl::StrCat(FormatCount(value), " ", thing, value == 1 ? "" : "s");
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  static constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would be printed as 1024.0.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string FormatSeconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995e-3) return absl::StrFormat("%.0f us", seconds * 1e6);
  if (seconds < 0.99995) return absl::StrFormat("%.1f ms", seconds * 1e3);
  if (seconds < 59.995) return absl::StrFormat("%.2f s", seconds);
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  if (whole < 3600) return absl::StrFormat("%d m %d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %d m", whole / 3600, whole % 3600 / 60);
}

std::string FormatRate(double per_second) {
  if (!std::isfinite(per_second) || per_second <= 0) return "-";
  return absl::StrFormat("%.1f/s", per_second);
}

std::string QuotePiece(absl::string_view bytes) {
  std::string result = "\"";
  // Whole characters stay; bytes of a broken one (a token may hold part of a character) do not.
  for (size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i]);
    size_t length = lead < 0x80                   ? 1
                    : lead >= 0xC2 && lead < 0xE0 ? 2
                    : lead >= 0xE0 && lead < 0xF0 ? 3
                    : lead >= 0xF0 && lead < 0xF5 ? 4
                                                  : 0;
    for (size_t k = 1; k < length; ++k) {
      if (i + k >= bytes.size() || (static_cast<unsigned char>(bytes[i + k]) & 0xC0) != 0x80) {
        length = 0;
      }
    }
    const bool c1 = length == 2 && lead == 0xC2 && static_cast<unsigned char>(bytes[i + 1]) < 0xA0;
    if (length == 0 || c1 || lead == 0x7F || (lead < 0x20 && lead != '\n' && lead != '\t')) {
      absl::StrAppendFormat(&result, "\\x%02x", lead);
      ++i;
      continue;
    }
    if (lead == '\n') {
      result += "\\n";
    } else if (lead == '\t') {
      result += "\\t";
    } else if (lead == '"' || lead == '\\') {
      absl::StrAppend(&result, "\\", bytes.substr(i, 1));
    } else {
      absl::StrAppend(&result, bytes.substr(i, length));
    }
    i += length;
  }
  return result + "\"";
}

std::string PolicyName(const folio::v1::CacheOptions& cache) {
  return client::PolicyText(cache.policy());
}

std::string DescribeCache(const folio::v1::CacheOptions& cache) {
  std::string text = PolicyName(cache);
  if (cache.budget_tokens() == 0) return text;
  absl::StrAppend(&text, ", budget ", cache.budget_tokens());
  const auto& layers = cache.layer_budget_tokens();
  if (!layers.empty()) {
    const auto [least, most] = std::minmax_element(layers.begin(), layers.end());
    absl::StrAppend(&text, " (layers from ", *least, " to ", *most, ")");
  }
  if (cache.has_sink_tokens()) absl::StrAppend(&text, ", sink ", cache.sink_tokens());
  if (cache.has_recent_tokens()) absl::StrAppend(&text, ", recent ", cache.recent_tokens());
  if (cache.compaction() == folio::v1::COMPACTION_STREAMED) {
    absl::StrAppend(&text, ", compacted every ", cache.compaction_stride_tokens(), " tokens");
  }
  if (cache.layers() == folio::v1::LAYERS_SHARED) absl::StrAppend(&text, ", shared by all layers");
  if (cache.prompt_share() > 0) {
    absl::StrAppend(&text, ", prompt's share ", cache.prompt_share());
  }
  if (cache.protect_ends() > 0) {
    absl::StrAppend(&text, ", ends of the prompt ", cache.protect_ends());
  }
  if (cache.segments() > 1) absl::StrAppend(&text, ", ", cache.segments(), " segments");
  const bool synchronous = cache.eviction_mode() == folio::v1::EVICTION_MODE_SYNCHRONOUS;
  return absl::StrCat(text, synchronous ? ", synchronous" : ", pipelined");
}

}  // namespace folio::cli
