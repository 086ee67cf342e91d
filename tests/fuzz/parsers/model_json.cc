#include <cstdint>

#include "services/model/source/json_fields.h"

// config.json and the other JSON files of a model go through this. What was read can be written
// and read again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto object = folio::model::ParseJsonObject(text, "input");
  if (!object.ok()) return 0;
  if (!folio::model::ParseJsonObject(object->dump(), "again").ok()) std::abort();
  folio::model::JsonFields fields(*object, "input");
  fields.Uint("a", 1);
  fields.Float("b", 1);
  fields.Bool("c", true);
  fields.String("d", "");
  fields.UintOrList("e");
  return 0;
}
