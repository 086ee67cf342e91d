#include "services/model/source/stored_scales.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"

namespace folio::model {
namespace {

constexpr char kServedScales[] =
    "weights in F8_E4M3 are served with one scale, or with one for each row";

}  // namespace

bool IsFloat(StorageType type) {
  return type == StorageType::kF32 || type == StorageType::kF16 || type == StorageType::kBF16;
}

std::string ScalesName(const std::string& matrix) { return absl::StrCat(matrix, "_scale"); }

absl::Status TakeScales(const TensorsByName& tensors, StoredTensor& matrix) {
  const std::string name = ScalesName(matrix.name);
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    const std::string blocks = absl::StrCat(name, "_inv");
    const std::string where = absl::StrCat(matrix.file, ": tensor ");
    if (tensors.contains(blocks)) {
      return absl::UnimplementedError(
          absl::StrCat(where, blocks, ": scales of blocks, but the quantization_config of ",
                       "config.json has no weight_block_size"));
    }
    return absl::InvalidArgumentError(absl::StrCat(where, name, ": missing; ", kServedScales));
  }
  const StoredTensor& stored = *found->second;
  const std::string where = absl::StrCat(stored.file, ": tensor ", name, ": ");
  if (!IsFloat(stored.type)) {
    return absl::UnimplementedError(absl::StrCat(where, "type ", stored.type_name,
                                                 " is not supported for scales (F32, F16, BF16)"));
  }
  const uint64_t rows = matrix.shape[0];
  const std::vector<uint64_t>& shape = stored.shape;
  const bool one =
      shape.empty() || shape == std::vector<uint64_t>{1} || shape == std::vector<uint64_t>{1, 1};
  const bool per_row =
      shape == std::vector<uint64_t>{rows} || shape == std::vector<uint64_t>{rows, 1};
  if (!one && !per_row) {
    return absl::UnimplementedError(absl::StrCat(where, "shape ", ShapeText(shape),
                                                 " is not served for a matrix of ", rows, " rows; ",
                                                 kServedScales));
  }
  std::vector<float> scales(one ? 1 : rows);
  DequantizeRow(stored.type, stored.bytes.data(), scales.size(), scales.data());
  for (size_t i = 0; i < scales.size(); ++i) {
    if (std::isfinite(scales[i]) && scales[i] >= 0) continue;
    return absl::DataLossError(absl::StrCat(where, "a scale is negative, NaN or infinite at ", i));
  }
  scales.resize(rows, scales.front());
  matrix.scales = std::move(scales);
  return absl::OkStatus();
}

}  // namespace folio::model
