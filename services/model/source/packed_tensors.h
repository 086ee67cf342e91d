// CombinePacked finds the tensors that quantised matrices of a Hugging Face directory are made of.
// It is internal to OpenModel.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_PACKED_TENSORS_H_
#define FOLIO_SERVICES_MODEL_SOURCE_PACKED_TENSORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/model/source/dequantize.h"
#include "services/model/source/quantization.h"

namespace folio::model {

// Puts one tensor "NAME.weight" of kPacked in place of those that a quantised matrix [out, in] is
// made of. Matrices that are stored as plain floats stay as they are. These are made of:
//   kBlocksE4M3  weight [out, in], weight_scale_inv [blocks of rows, blocks of columns]
//   kAwq         qweight [in, out / 8], qzeros [groups, out / 8], scales [groups, out]
//   kGptq        qweight [in / 8, out], qzeros [groups, out / 8], scales [groups, out], g_idx [in]
//   kPackedInt4  weight_packed [out, in / 8], weight_scale [out, groups], and if they are not
//                symmetric weight_zero_point [out / 8, groups]; weight_shape [2]
// Codes are of type I32, 8 in each. INVALID_ARGUMENT names a tensor that is missing, or of another
// shape than the others want. UNIMPLEMENTED names one of another type. DATA_LOSS: a group outside.
absl::Status CombinePacked(const Quantization& quantization, std::vector<StoredTensor>& tensors);

// "….qweight" or its like for "….weight", if one of these tensors belongs to a quantised matrix of
// that name. Empty if none does.
std::string PackedNameOf(absl::string_view matrix, const std::vector<StoredTensor>& tensors);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_PACKED_TENSORS_H_
