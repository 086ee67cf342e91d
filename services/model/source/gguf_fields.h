// GgufFields reads values of known types from a GGUF file's metadata. One thread uses it.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_GGUF_FIELDS_H_
#define FOLIO_SERVICES_MODEL_SOURCE_GGUF_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/model/source/gguf_file.h"

namespace folio::model {

// The keys of an architecture: GgufKeys("llama")("block_count") is "llama.block_count".
class GgufKeys {
 public:
  explicit GgufKeys(absl::string_view architecture) : architecture_(architecture) {}
  std::string operator()(absl::string_view key) const {
    return absl::StrCat(architecture_, ".", key);
  }

 private:
  absl::string_view architecture_;
};

// UNIMPLEMENTED names the field, its value, and what is `known` instead.
template <typename Value>
absl::Status Unsupported(const GgufFile& gguf, absl::string_view key, const Value& value,
                         absl::string_view known) {
  return absl::UnimplementedError(
      absl::StrCat(gguf.path(), ": ", key, ": ", value, " is not supported (", known, ")"));
}

// Look-ups remember the first error, so that a caller reads a list of fields in one go and then
// looks at status(). After an error they give fallbacks.
class GgufFields {
 public:
  explicit GgufFields(const GgufFile& file) : file_(file) {}

  // A field without fallback must be there. Any integer type will do, if the value fits.
  uint32_t Uint(absl::string_view key, std::optional<uint32_t> fallback = std::nullopt);
  float Float(absl::string_view key, std::optional<float> fallback = std::nullopt);
  std::string String(absl::string_view key,
                     const std::optional<std::string>& fallback = std::nullopt);
  // Empty when the file lacks the key.
  std::optional<uint32_t> MaybeUint(absl::string_view key);
  std::optional<bool> MaybeBool(absl::string_view key);
  std::vector<std::string> Strings(absl::string_view key);
  std::vector<bool> Bools(absl::string_view key);
  std::vector<int32_t> Ints(absl::string_view key);
  std::vector<float> Floats(absl::string_view key);
  std::string Bytes(absl::string_view key);  // an array of 8-bit integers

  bool Has(absl::string_view key) const { return file_.Find(key) != nullptr; }
  const absl::Status& status() const { return status_; }

 private:
  void Fail(absl::string_view key, absl::string_view what);

  const GgufFile& file_;
  absl::Status status_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_GGUF_FIELDS_H_
