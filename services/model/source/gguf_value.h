// GgufValue is a metadata value of a GGUF file, and GgufCursor reads it. Both are internal to the
// GGUF reader.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_GGUF_VALUE_H_
#define FOLIO_SERVICES_MODEL_SOURCE_GGUF_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace folio::model {

// Reads forward. The first read beyond the end makes it not ok; from then on it gives zeros.
class GgufCursor {
 public:
  explicit GgufCursor(absl::Span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  size_t position() const { return position_; }
  size_t left() const { return ok_ ? bytes_.size() - position_ : 0; }

  absl::Span<const std::byte> Take(uint64_t count) {
    if (count > left()) {
      ok_ = false;
      return {};
    }
    const auto taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }

  template <typename T>
  T Read() {
    T value{};
    const auto taken = Take(sizeof value);
    if (ok_) std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }

  absl::string_view ReadString() {
    const auto taken = Take(Read<uint64_t>());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

 private:
  absl::Span<const std::byte> bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

// Type codes of metadata values.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// Elements of one type that is not kArray; strings keep their length prefixes.
struct GgufArray {
  GgufType type = GgufType::kUint8;
  uint64_t count = 0;
  absl::Span<const std::byte> bytes;
};

// Integers are widened; a string borrows from the mapping.
using GgufValue = std::variant<uint64_t, int64_t, double, bool, absl::string_view, GgufArray>;

// The value at the cursor, its type code first. DATA_LOSS or UNIMPLEMENTED say what is wrong, not
// where. A value cut off by the end of the file leaves the cursor not ok().
absl::StatusOr<GgufValue> ReadGgufValue(GgufCursor& cursor);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_GGUF_VALUE_H_
