// TakeScales finds the scales of a matrix that is stored in E4M3. It is internal to OpenModel.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_STORED_SCALES_H_
#define FOLIO_SERVICES_MODEL_SOURCE_STORED_SCALES_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "services/model/source/dequantize.h"

namespace folio::model {

using TensorsByName = absl::flat_hash_map<std::string, const StoredTensor*>;

// Whether the type is F32, F16 or BF16.
bool IsFloat(StorageType type);

// "….weight_scale" for "….weight".
std::string ScalesName(const std::string& matrix);

// Gives `matrix` [n, k] a scale for each row, from the tensor of ScalesName: one number, or [n] or
// [n, 1] of them, in F32, F16 or BF16. INVALID_ARGUMENT: there is no such tensor. UNIMPLEMENTED
// names other types and layouts. DATA_LOSS: a scale is negative, NaN or
// infinite.
absl::Status TakeScales(const TensorsByName& tensors, StoredTensor& matrix);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_STORED_SCALES_H_
