// RawModel is what the reader of a format found in a model's files, before it is known to be a
// whole model. It is internal to OpenModel. Readers fill it in and AssembleModel checks its parts
// against one another.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_RAW_MODEL_H_
#define FOLIO_SERVICES_MODEL_SOURCE_RAW_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/model/family/family.h"
#include "services/model/source/dequantize.h"
#include "services/model/source/mapped_file.h"
#include "services/model/source/model_source.h"

namespace folio::model {

// The words in front of the names of a Hugging Face directory's tensors, where families write
// "model." and where they write none ("lm_head.weight").
struct HfPrefixes {
  absl::string_view model = "model.";
  absl::string_view other = "";
};

struct RawModel {
  std::string origin;  // file or directory, for messages
  ModelConfig config;
  TokenizerSpec tokenizer;
  std::vector<StoredTensor> tensors;  // names are unique
  const Family* family = nullptr;
  Format format = Format::kHf;
  HfPrefixes prefixes = {};  // of kHf alone
  // Endings of tensors that can be left unread without changing what the model computes.
  std::vector<std::string> harmless;
  std::vector<std::shared_ptr<const MappedFile>> files;
};

// INVALID_ARGUMENT names the field that is out of range or contradicts another.
absl::Status CheckConfig(const std::string& origin, const ModelConfig& config);

// A model whose layers all attend to a window of latest tokens is served up to that length, where
// the window is all that came before. 0 stands for a model without one.
void LimitContext(const std::string& origin, uint32_t window, ModelConfig& config);

// Checks everything and gives the model. A tensor that belongs to a layer and has no role in the
// family (a bias, a gate of experts) would change what the model computes, as would a tower for
// images, so UNIMPLEMENTED names it. Other tensors without a role are logged and left alone.
absl::StatusOr<std::unique_ptr<ModelSource>> AssembleModel(RawModel parts);

// The readers of the two formats.
absl::StatusOr<RawModel> ReadGgufModel(const std::string& path);
absl::StatusOr<RawModel> ReadHfModel(const std::string& directory);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_RAW_MODEL_H_
