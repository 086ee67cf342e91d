// TensorNames knows the names that a model's tensors have in its files. Hugging Face directories
// put different words in front, depending on which part of a model was saved: "model." for a whole
// model of text, no word if its output matrix was left out, and "language_model.model." or
// "model.language_model." for the text model in a larger one. It is internal to OpenModel,
// immutable and thread-safe.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_TENSOR_NAMES_H_
#define FOLIO_SERVICES_MODEL_SOURCE_TENSOR_NAMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/model/source/raw_model.h"
#include "services/model/source/stored_scales.h"

namespace folio::model {

// The words in front of the names of most tensors of layers. "model." if there are no layers.
HfPrefixes FindHfPrefixes(const std::vector<StoredTensor>& tensors);

class TensorNames {
 public:
  // Both outlive this.
  TensorNames(const RawModel& parts, const TensorsByName& stored)
      : parts_(parts), stored_(stored) {}

  // The name in the files.
  std::string Of(const TensorSpec& spec, uint32_t layer) const;

  // The tensor whose values `spec` has. A tied model has one for the embedding and the output
  // matrix, which is the embedding unless the output matrix alone is stored.
  TensorSpec Source(const TensorSpec& spec) const;

  // INVALID_ARGUMENT says that there is no such tensor, and which field could be the reason.
  absl::Status Missing(const TensorSpec& spec, uint32_t layer) const;

  // Whether a tensor that has no role may be left unread. UNIMPLEMENTED names one that would change
  // what the model computes: a part of a layer, a bias, or another network beside the layers.
  absl::Status CheckUnused(const StoredTensor& tensor) const;

 private:
  bool Has(const TensorSpec& spec) const { return stored_.contains(Of(spec, 0)); }
  bool InLayer(const std::string& name) const;
  // Programs that quantise a model give each matrix a bias, which is zero where the model has none.
  bool IsBiasOfZeros(const StoredTensor& tensor) const;

  const RawModel& parts_;
  const TensorsByName& stored_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_TENSOR_NAMES_H_
