// ReadQuantized gives a stored matrix as the codes and scales that its file has, for kernels that
// compute with them. Its functions are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_QUANTIZED_TENSOR_H_
#define FOLIO_SERVICES_MODEL_SOURCE_QUANTIZED_TENSOR_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "kernels/quantized.h"
#include "services/model/source/block_formats.h"
#include "services/model/source/dequantize.h"

namespace folio::model {

// The format of a type that kernels compute with, and none for the others.
std::optional<kernels::QuantizedFormat> QuantizedFormatOf(StorageType type);

// The matrix, whose rows borrow the mapping of the file. Dequantised (kernels::Dequantize), they
// are those of DequantizeRow, except for the sign of zeros. Null if the matrix is stored in floats
// or in E4M3. UNIMPLEMENTED if it is quantised with a type that no kernel computes with, and
// DATA_LOSS as ReadBf16.
absl::StatusOr<std::unique_ptr<kernels::QuantizedMatrix>> ReadQuantized(const StoredTensor& tensor,
                                                                        const RowOrder& order);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_QUANTIZED_TENSOR_H_
