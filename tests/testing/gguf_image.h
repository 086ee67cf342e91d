// GgufImage is a GGUF file as an editable structure. It checks nothing, because tests use it to
// make damaged files.
#ifndef FOLIO_TESTS_TESTING_GGUF_IMAGE_H_
#define FOLIO_TESTS_TESTING_GGUF_IMAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/model/source/gguf_value.h"

namespace folio::testing {

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> extents;  // innermost first, as the file has them
  uint32_t type = 0;              // ggml's code
  std::string bytes;
  std::optional<uint64_t> offset = std::nullopt;  // instead of the next free place
};

struct GgufField {
  std::string key;
  uint32_t type = 0;
  std::string bytes;  // the value as in the file
};

struct GgufImage {
  uint32_t magic = 0x46554747;
  uint32_t version = 3;
  std::vector<GgufField> fields;
  std::vector<GgufTensor> tensors;
  uint64_t alignment = 32;  // of the layout; the file says so only by a field
  std::optional<uint64_t> tensor_count = std::nullopt;  // instead of the true ones
  std::optional<uint64_t> field_count = std::nullopt;

  // Adds the field, or replaces it.
  void SetUint(const std::string& key, uint32_t value);
  void SetFloat(const std::string& key, float value);
  void SetBool(const std::string& key, bool value);
  void SetString(const std::string& key, const std::string& value);
  void SetStrings(const std::string& key, const std::vector<std::string>& values);
  void SetInts(const std::string& key, const std::vector<int32_t>& values);
  void SetRaw(const std::string& key, model::GgufType type, std::string bytes);
  void Erase(const std::string& key);

  // The tensor must be there.
  GgufTensor& Tensor(const std::string& name);
  void EraseTensor(const std::string& name);

  std::string Serialize() const;
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_TESTING_GGUF_IMAGE_H_
