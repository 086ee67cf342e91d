// What a container's reader found, before it is known to be a whole model. Internal to
// OpenModel: readers fill ModelParts, AssembleModel checks them against one another.
#ifndef FOLIO_SERVICES_MODEL_MODEL_PARTS_H_
#define FOLIO_SERVICES_MODEL_MODEL_PARTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/model/dequantize.h"
#include "services/model/mapped_file.h"
#include "services/model/model_source.h"

namespace folio::model {

// How a container calls a Llama model's tensors.
struct TensorNames {
  // Name of a role's tensor; the layer counts for roles that have one.
  std::string (*name)(Role role, uint32_t layer);
  // Start of the names of a layer's tensors, before the layer's number.
  const char* layer_prefix;
  // Endings of tensors that can be left unread without changing what the model computes.
  std::vector<std::string> harmless;
};

struct ModelParts {
  std::string origin;  // file or directory, for messages
  ModelConfig config;
  TokenizerSpec tokenizer;
  std::vector<StoredTensor> tensors;  // names are unique
  TensorNames names;
  bool interleaved_rope = false;  // Q and K rows are stored (head, pair, half)
  std::vector<std::shared_ptr<const MappedFile>> files;
};

// INVALID_ARGUMENT names the field that is absurd or does not go with another.
absl::Status CheckConfig(const std::string& origin, const ModelConfig& config);

// Checks everything and gives the model. A tensor that belongs to a layer and has no role here
// (a bias, a gate of experts) would change what the model computes: UNIMPLEMENTED names it. Other
// tensors without a role are logged and left alone.
absl::StatusOr<std::unique_ptr<ModelSource>> AssembleModel(ModelParts parts);

// The two kinds of container.
absl::StatusOr<ModelParts> ReadGgufModel(const std::string& path);
absl::StatusOr<ModelParts> ReadHfModel(const std::string& directory);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_MODEL_PARTS_H_
