// ModelSource is a model on disk, a GGUF file or a Hugging Face directory, behind one interface. It
// gives what a transformer is built from in Hugging Face's order (rows of Q and K as halves),
// whatever the container.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_MODEL_SOURCE_H_
#define FOLIO_SERVICES_MODEL_SOURCE_MODEL_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/quantized.h"
#include "kernels/views.h"
#include "services/model/family/model_config.h"
#include "services/model/family/role.h"
#include "services/model/source/dequantize.h"
#include "services/model/tokenizer/tokenizer_spec.h"

namespace folio::model {

// Memory-mapped; reading converts one tensor at a time. Thread-compatible.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual const ModelConfig& config() const = 0;
  virtual const TokenizerSpec& tokenizer() const = 0;

  // Row-major, dequantised in float32 and rounded to bf16. `layer` is ignored for the roles without
  // one. DATA_LOSS names the tensor that holds a NaN or an infinity. The role is one that the
  // model's family has (CHECKed).
  virtual absl::StatusOr<std::vector<kernels::bf16>> ReadMatrix(Role role,
                                                                uint32_t layer) const = 0;
  virtual absl::StatusOr<std::vector<float>> ReadVector(Role role, uint32_t layer) const = 0;
  // The numbers of ReadMatrix, quantised row by row (kernels::QuantizeRow), or the codes and scales
  // of a model that is stored so. Errors are those of ReadMatrix.
  virtual absl::StatusOr<ScaledMatrix> ReadScaled(Role role, uint32_t layer) const;

  // The matrix as it is stored, quantised, which borrows from this source. Null where it is not
  // quantised or the source has no such form. UNIMPLEMENTED says why the quantised matrix must be
  // read in another way. Other errors are those of ReadMatrix.
  virtual absl::StatusOr<std::unique_ptr<kernels::QuantizedMatrix>> ReadQuantized(
      Role /*role*/, uint32_t /*layer*/) const {
    return nullptr;
  }

  // Hex digest over configuration and tensor bytes; equal for equal models, cheap enough for
  // start-up.
  virtual std::string fingerprint() const = 0;
};

// `path` is a .gguf file or a directory with config.json. Everything is checked before it returns:
// header, bounds, shapes, types, completeness. Errors name the file and the field or tensor.
// The model is served with a context of at most `max_context` tokens, and with its own if that is
// 0.
absl::StatusOr<std::unique_ptr<ModelSource>> OpenModel(const std::string& path,
                                                       uint32_t max_context = 0);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_MODEL_SOURCE_H_
