#include "services/model/source/packed_tensors.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/model/source/packed_matrix.h"
#include "services/model/source/stored_bytes.h"
#include "services/model/source/stored_scales.h"

namespace folio::model {
namespace {

constexpr absl::string_view kPackedEndings[] = {".qweight", ".weight_packed"};

using Shape = std::vector<uint64_t>;

// Finds the tensors of one matrix and keeps the first error.
class PartsOfMatrix {
 public:
  PartsOfMatrix(const absl::flat_hash_map<std::string, const StoredTensor*>& tensors,
                std::string base, absl::flat_hash_set<std::string>& used)
      : tensors_(tensors), base_(std::move(base)), used_(used) {}

  const StoredTensor* Find(absl::string_view ending) {
    const auto found = tensors_.find(absl::StrCat(base_, ending));
    if (found == tensors_.end()) return nullptr;
    used_.insert(found->first);
    return found->second;
  }

  // The bytes of a tensor that must be there, of this type (empty: a plain float) and shape.
  StoredBytes Take(absl::string_view ending, absl::string_view type, const Shape& shape,
                   const StoredTensor& codes) {
    const StoredTensor* tensor = Find(ending);
    if (tensor == nullptr) {
      Fail(absl::InvalidArgumentError(absl::StrCat(codes.file, ": tensor ", base_, ending,
                                                   ": missing, which ", codes.name, " needs")));
      return {};
    }
    const bool right = type.empty() ? IsFloat(tensor->type) : tensor->type_name == type;
    if (!right) {
      Fail(absl::UnimplementedError(absl::StrCat(Where(*tensor), "type ", tensor->type_name,
                                                 " is not supported (",
                                                 type.empty() ? "F32, F16, BF16" : type, ")")));
    } else if (tensor->shape != shape) {
      Fail(absl::InvalidArgumentError(
          absl::StrCat(Where(*tensor), "shape ", ShapeText(tensor->shape), ", expected ",
                       ShapeText(shape), " beside ", codes.name, " ", ShapeText(codes.shape))));
    }
    return tensor->bytes;
  }

  void Fail(const absl::Status& status) { status_.Update(status); }
  const absl::Status& status() const { return status_; }

  static std::string Where(const StoredTensor& tensor) {
    return absl::StrCat(tensor.file, ": tensor ", tensor.name, ": ");
  }

 private:
  const absl::flat_hash_map<std::string, const StoredTensor*>& tensors_;
  const std::string base_;
  absl::flat_hash_set<std::string>& used_;
  absl::Status status_;
};

// The groups of a row of so many columns.
absl::StatusOr<uint64_t> Groups(const Quantization& quantization, const StoredTensor& codes,
                                uint64_t columns) {
  if (quantization.group == 0) return uint64_t{1};
  if (columns % quantization.group == 0) return columns / quantization.group;
  return absl::InvalidArgumentError(
      absl::StrCat(PartsOfMatrix::Where(codes), columns,
                   " columns do not divide into groups of group_size ", quantization.group));
}

absl::Status CheckCodes(const StoredTensor& codes) {
  if (codes.type_name != "I32") {
    return absl::UnimplementedError(absl::StrCat(PartsOfMatrix::Where(codes), "type ",
                                                 codes.type_name, " is not supported (I32)"));
  }
  if (codes.shape.size() != 2 || codes.bytes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(PartsOfMatrix::Where(codes), "shape ",
                                                   ShapeText(codes.shape),
                                                   ", expected two dimensions"));
  }
  return absl::OkStatus();
}

// Checks a list that says the group of each column.
absl::Status CheckGroups(const StoredTensor& list, const Quantization& quantization,
                         uint64_t groups) {
  const uint64_t columns = list.shape[0];
  for (uint64_t column = 0; column < columns; ++column) {
    const auto group = LoadAs<int32_t>(&list.bytes[column * sizeof(int32_t)]);
    const std::string where =
        absl::StrCat(PartsOfMatrix::Where(list), "group ", group, " of column ", column);
    if (group < 0 || static_cast<uint64_t>(group) >= groups) {
      return absl::DataLossError(absl::StrCat(where, " is not one of ", groups));
    }
    if (!quantization.any_order && static_cast<uint64_t>(group) != column / (columns / groups)) {
      return absl::InvalidArgumentError(absl::StrCat(
          where,
          " is out of order, but quantization_config has desc_act: false (with true it would "
          "be read)"));
    }
  }
  return absl::OkStatus();
}

StoredTensor Combined(const StoredTensor& codes, absl::string_view base, absl::string_view type,
                      Shape shape, std::shared_ptr<const PackedMatrix> matrix) {
  StoredTensor tensor;
  tensor.file = codes.file;
  tensor.name = absl::StrCat(base, ".weight");
  tensor.type = StorageType::kPacked;
  tensor.type_name = std::string(type);
  tensor.shape = std::move(shape);
  tensor.packed = std::move(matrix);
  return tensor;
}

StorageType TypeOf(const StoredTensor* scales) {
  return scales == nullptr ? StorageType::kF16 : scales->type;
}

// AWQ and GPTQ.
absl::StatusOr<StoredTensor> CombineQweight(const Quantization& quantization,
                                            const StoredTensor& codes, const std::string& base,
                                            PartsOfMatrix& parts) {
  if (absl::Status status = CheckCodes(codes); !status.ok()) return status;
  const bool awq = quantization.form == QuantizedAs::kAwq;
  PackedInt4 matrix;
  matrix.columns = awq ? codes.shape[0] : codes.shape[0] * kCodesInWord;
  matrix.rows = awq ? codes.shape[1] * kCodesInWord : codes.shape[1];
  const absl::StatusOr<uint64_t> groups = Groups(quantization, codes, matrix.columns);
  if (!groups.ok()) return groups.status();
  matrix.groups = *groups;
  const uint64_t words = matrix.rows / kCodesInWord;
  matrix.codes = {codes.bytes, awq, 1, codes.shape[1],
                  awq ? Nibbles::kAwqOrder : Nibbles::kInOrder};
  matrix.zeros = {parts.Take(".qzeros", "I32", {*groups, words}, codes),
                  true,
                  1,
                  words,
                  matrix.codes.places,
                  quantization.zeros_added};
  matrix.scale_type = TypeOf(parts.Find(".scales"));
  matrix.scales = parts.Take(".scales", "", {*groups, matrix.rows}, codes);
  const StoredTensor* list = awq ? nullptr : parts.Find(".g_idx");
  if (list != nullptr || quantization.any_order) {
    matrix.group_of = parts.Take(".g_idx", "I32", {matrix.columns}, codes);
  }
  if (!parts.status().ok()) return parts.status();
  if (matrix.rows % kCodesInWord != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(PartsOfMatrix::Where(codes), matrix.rows, " rows are not a multiple of 8"));
  }
  if (list != nullptr) {
    if (absl::Status status = CheckGroups(*list, quantization, *groups); !status.ok())
      return status;
  }
  const Shape shape = {matrix.rows, matrix.columns};
  return Combined(codes, base, awq ? "AWQ" : "GPTQ", shape, MakePacked(matrix));
}

// compressed-tensors.
absl::StatusOr<StoredTensor> CombineWeightPacked(const Quantization& quantization,
                                                 const StoredTensor& codes, const std::string& base,
                                                 PartsOfMatrix& parts) {
  if (absl::Status status = CheckCodes(codes); !status.ok()) return status;
  PackedInt4 matrix;
  matrix.rows = codes.shape[0];
  matrix.columns = codes.shape[1] * kCodesInWord;
  const StoredBytes shape = parts.Take(".weight_shape", "I64", {2}, codes);
  if (parts.status().ok()) {
    const auto rows = LoadAs<uint64_t>(&shape[0]);
    const auto columns = LoadAs<uint64_t>(&shape[sizeof(uint64_t)]);
    if (rows != matrix.rows || columns > matrix.columns ||
        columns + kCodesInWord <= matrix.columns) {
      return absl::InvalidArgumentError(absl::StrCat(
          codes.file, ": tensor ", base, ".weight_shape: ", rows, " rows and ", columns,
          " columns do not go with ", codes.name, " ", ShapeText(codes.shape)));
    }
    matrix.columns = columns;
  }
  const absl::StatusOr<uint64_t> groups = Groups(quantization, codes, matrix.columns);
  if (!groups.ok()) return groups.status();
  matrix.groups = *groups;
  matrix.codes = {codes.bytes, false, codes.shape[1], 1};
  if (!quantization.symmetric) {
    const uint64_t words = (matrix.rows + kCodesInWord - 1) / kCodesInWord;
    matrix.zeros = {parts.Take(".weight_zero_point", "I32", {words, *groups}, codes), true, *groups,
                    1};
  }
  matrix.scale_type = TypeOf(parts.Find(".weight_scale"));
  matrix.scales = parts.Take(".weight_scale", "", {matrix.rows, *groups}, codes);
  matrix.scales_by_group = false;
  if (!parts.status().ok()) return parts.status();
  const Shape full = {matrix.rows, matrix.columns};
  return Combined(codes, base, "pack-quantized", full, MakePacked(matrix));
}

absl::StatusOr<StoredTensor> CombineBlocks(const Quantization& quantization,
                                           const StoredTensor& codes, const std::string& base,
                                           PartsOfMatrix& parts) {
  if (codes.shape.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(PartsOfMatrix::Where(codes), "shape ",
                                                   ShapeText(codes.shape),
                                                   ", expected two dimensions"));
  }
  const auto blocks = [](uint64_t count, uint32_t block) { return (count + block - 1) / block; };
  BlockedE4M3 matrix;
  matrix.codes = codes.bytes;
  matrix.columns = codes.shape[1];
  matrix.block_rows = quantization.block_rows;
  matrix.block_columns = quantization.block_columns;
  matrix.scale_type = TypeOf(parts.Find(".weight_scale_inv"));
  const Shape scales = {blocks(codes.shape[0], quantization.block_rows),
                        blocks(codes.shape[1], quantization.block_columns)};
  matrix.scales = parts.Take(".weight_scale_inv", "", scales, codes);
  if (!parts.status().ok()) return parts.status();
  return Combined(codes, base, "F8_E4M3 blocks", codes.shape, MakePacked(matrix));
}

// "NAME" if the tensor has the codes of the matrix "NAME.weight".
std::string BaseOf(const Quantization& quantization, const StoredTensor& tensor) {
  absl::string_view name = tensor.name;
  switch (quantization.form) {
    case QuantizedAs::kAwq:
    case QuantizedAs::kGptq:
      return absl::ConsumeSuffix(&name, kPackedEndings[0]) ? std::string(name) : "";
    case QuantizedAs::kPackedInt4:
      return absl::ConsumeSuffix(&name, kPackedEndings[1]) ? std::string(name) : "";
    case QuantizedAs::kBlocksE4M3:
      if (tensor.type != StorageType::kE4M3) return "";
      return absl::ConsumeSuffix(&name, ".weight") ? std::string(name) : "";
    case QuantizedAs::kNothing:
    case QuantizedAs::kRowsE4M3:
      break;
  }
  return "";
}

}  // namespace

absl::Status CombinePacked(const Quantization& quantization, std::vector<StoredTensor>& tensors) {
  absl::flat_hash_map<std::string, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  absl::flat_hash_set<std::string> used;
  std::vector<StoredTensor> combined;
  for (const StoredTensor& codes : tensors) {
    const std::string base = BaseOf(quantization, codes);
    if (base.empty()) continue;
    used.insert(codes.name);
    PartsOfMatrix parts(by_name, base, used);
    absl::StatusOr<StoredTensor> matrix =
        quantization.form == QuantizedAs::kBlocksE4M3
            ? CombineBlocks(quantization, codes, base, parts)
        : quantization.form == QuantizedAs::kPackedInt4
            ? CombineWeightPacked(quantization, codes, base, parts)
            : CombineQweight(quantization, codes, base, parts);
    if (!matrix.ok()) return matrix.status();
    combined.push_back(*std::move(matrix));
  }
  std::erase_if(tensors, [&](const StoredTensor& tensor) { return used.contains(tensor.name); });
  for (StoredTensor& matrix : combined) tensors.push_back(std::move(matrix));
  return absl::OkStatus();
}

std::string PackedNameOf(absl::string_view matrix, const std::vector<StoredTensor>& tensors) {
  if (!absl::ConsumeSuffix(&matrix, ".weight")) return "";
  for (const absl::string_view ending : kPackedEndings) {
    const std::string name = absl::StrCat(matrix, ending);
    const bool there = std::any_of(tensors.begin(), tensors.end(),
                                   [&name](const StoredTensor& each) { return each.name == name; });
    if (there) return name;
  }
  return "";
}

}  // namespace folio::model
