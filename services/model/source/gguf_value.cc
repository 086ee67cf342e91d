#include "services/model/source/gguf_value.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace folio::model {
namespace {

// Bytes of a value of fixed size; 0 for strings, arrays and codes that do not exist.
size_t FixedSize(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

absl::StatusOr<GgufValue> ReadArray(GgufCursor& cursor) {
  GgufArray array;
  array.type = static_cast<GgufType>(cursor.Read<uint32_t>());
  array.count = cursor.Read<uint64_t>();
  const size_t element = FixedSize(array.type);
  if (array.type == GgufType::kArray) return absl::UnimplementedError("an array of arrays");
  if (array.type != GgufType::kString && element == 0) {
    return absl::DataLossError(
        absl::StrCat("array of unknown type ", static_cast<uint32_t>(array.type)));
  }
  // A string is at least its length.
  if (array.count > cursor.left() / std::max<size_t>(element, 1)) {
    return absl::DataLossError(
        absl::StrCat("array of ", array.count, " elements is longer than the file"));
  }
  if (array.type != GgufType::kString) {
    array.bytes = cursor.Take(array.count * element);
    return GgufValue(array);
  }
  GgufCursor walk = cursor;
  for (uint64_t i = 0; i < array.count && walk.ok(); ++i) walk.ReadString();
  if (!walk.ok()) return absl::DataLossError("truncated in an array of strings");
  array.bytes = cursor.Take(walk.position() - cursor.position());
  return GgufValue(array);
}

}  // namespace

absl::StatusOr<GgufValue> ReadGgufValue(GgufCursor& cursor) {
  const auto type = static_cast<GgufType>(cursor.Read<uint32_t>());
  switch (type) {
    case GgufType::kUint8:
      return GgufValue(uint64_t{cursor.Read<uint8_t>()});
    case GgufType::kInt8:
      return GgufValue(int64_t{cursor.Read<int8_t>()});
    case GgufType::kUint16:
      return GgufValue(uint64_t{cursor.Read<uint16_t>()});
    case GgufType::kInt16:
      return GgufValue(int64_t{cursor.Read<int16_t>()});
    case GgufType::kUint32:
      return GgufValue(uint64_t{cursor.Read<uint32_t>()});
    case GgufType::kInt32:
      return GgufValue(int64_t{cursor.Read<int32_t>()});
    case GgufType::kUint64:
      return GgufValue(cursor.Read<uint64_t>());
    case GgufType::kInt64:
      return GgufValue(cursor.Read<int64_t>());
    case GgufType::kFloat32:
      return GgufValue(double{cursor.Read<float>()});
    case GgufType::kFloat64:
      return GgufValue(cursor.Read<double>());
    case GgufType::kBool:
      return GgufValue(cursor.Read<uint8_t>() != 0);
    case GgufType::kString:
      return GgufValue(cursor.ReadString());
    case GgufType::kArray:
      return ReadArray(cursor);
  }
  return absl::DataLossError(absl::StrCat("unknown value type ", static_cast<uint32_t>(type)));
}

}  // namespace folio::model
