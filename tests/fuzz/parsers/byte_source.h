// ByteSource takes decisions from the bytes of a fuzzer's input. Once they are used up, all are 0.
#ifndef FOLIO_TESTS_FUZZ_PARSERS_BYTE_SOURCE_H_
#define FOLIO_TESTS_FUZZ_PARSERS_BYTE_SOURCE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace folio::fuzz {

class ByteSource {
 public:
  // The bytes are borrowed.
  explicit ByteSource(absl::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  uint8_t Byte() {
    if (bytes_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(bytes_[0]);
    bytes_.remove_prefix(1);
    return byte;
  }
  bool Bit() { return (Byte() & 1) != 0; }
  // From 0 to `end` - 1, for an `end` of at most 65,536.
  uint32_t Below(uint32_t end) {
    const uint32_t high = end > 256 ? Byte() : 0;
    return (high << 8 | Byte()) % end;
  }
  // The next bytes, or those that are left.
  absl::string_view Take(size_t size) {
    const absl::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  // All up to the next byte `end`, which is taken too, or to the last one.
  absl::string_view TakeUntil(char end) {
    const absl::string_view taken = bytes_.substr(0, bytes_.find(end));
    bytes_.remove_prefix(taken.size() < bytes_.size() ? taken.size() + 1 : taken.size());
    return taken;
  }
  absl::string_view rest() const { return bytes_; }

 private:
  absl::string_view bytes_;
};

}  // namespace folio::fuzz

#endif  // FOLIO_TESTS_FUZZ_PARSERS_BYTE_SOURCE_H_
