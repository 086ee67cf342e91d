#include "services/manager/journal/frames.h"

#include <zlib.h>

namespace folio::manager {
namespace {

void AppendNumber(uint32_t number, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) {
    out->push_back(static_cast<char>((number >> shift) & 0xFF));
  }
}

uint32_t ReadNumber(absl::string_view bytes) {
  uint32_t number = 0;
  for (int i = 3; i >= 0; --i) {
    number = (number << 8) | static_cast<unsigned char>(bytes[static_cast<size_t>(i)]);
  }
  return number;
}

}  // namespace

uint32_t ChecksumOf(absl::string_view bytes) {
  const auto* data = reinterpret_cast<const Bytef*>(bytes.data());
  return static_cast<uint32_t>(crc32_z(crc32(0, nullptr, 0), data, bytes.size()));
}

void AppendFrame(absl::string_view entry, std::string* out) {
  const size_t begin = out->size();
  AppendNumber(static_cast<uint32_t>(entry.size()), out);
  AppendNumber(ChecksumOf(absl::string_view(*out).substr(begin, 4)), out);
  AppendNumber(ChecksumOf(entry), out);
  out->append(entry.data(), entry.size());
}

std::optional<absl::string_view> FrameReader::Next() {
  const absl::string_view rest = bytes_.substr(offset_);
  if (rest.empty() || end_ != End::kClean) return std::nullopt;
  if (rest.size() < kFrameHead) {
    end_ = End::kTorn;
    return std::nullopt;
  }
  if (ReadNumber(rest.substr(4)) != ChecksumOf(rest.substr(0, 4))) {
    end_ = End::kDamaged;
    return std::nullopt;
  }
  const absl::string_view entry = rest.substr(kFrameHead, ReadNumber(rest));
  if (entry.size() < ReadNumber(rest)) {
    end_ = End::kTorn;
    return std::nullopt;
  }
  if (ReadNumber(rest.substr(8)) != ChecksumOf(entry)) {
    end_ = End::kDamaged;
    return std::nullopt;
  }
  offset_ += kFrameHead + entry.size();
  return entry;
}

}  // namespace folio::manager
