// GgufFile is a parsed GGUF container of version 2 or 3 (ggml's docs/gguf.md). It has the metadata
// and the directory of tensors. Everything is checked against the file's size before it is
// believed, so that a damaged file cannot make it allocate more than its own size. Immutable after
// Parse and Append; thread-safe.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_GGUF_FILE_H_
#define FOLIO_SERVICES_MODEL_SOURCE_GGUF_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/model/source/dequantize.h"
#include "services/model/source/gguf_value.h"
#include "services/model/source/mapped_file.h"

namespace folio::model {

class GgufFile {
 public:
  // DATA_LOSS says what is damaged, UNIMPLEMENTED names another version or byte order. Messages
  // name the file and the key or tensor.
  static absl::StatusOr<GgufFile> Parse(std::shared_ptr<const MappedFile> file);

  // Adds the tensors of another part of the model. DATA_LOSS names one that both parts have.
  absl::Status Append(GgufFile part);

  const std::string& path() const { return files_.front()->path(); }
  // This file, then the other parts.
  const std::vector<std::shared_ptr<const MappedFile>>& files() const { return files_; }
  const GgufValue* Find(absl::string_view key) const;
  std::vector<std::string> Keys() const;  // of the metadata, sorted
  // In file order. Tensors of a type this code does not know have empty bytes.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // Null if there is none.
  const StoredTensor* FindTensor(absl::string_view name) const;

 private:
  GgufFile() = default;

  std::vector<std::shared_ptr<const MappedFile>> files_;
  absl::flat_hash_map<std::string, GgufValue> metadata_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_GGUF_FILE_H_
