#include "services/model/source/packed_matrix.h"

#include <cstdint>
#include <utility>

#include "services/model/source/stored_bytes.h"

namespace folio::model {
namespace {

constexpr int kMiddle = 8;  // the zero of codes that have none stored

size_t GroupOf(const PackedInt4& parts, size_t column) {
  if (parts.group_of.empty()) return column / (parts.columns / parts.groups);
  return static_cast<size_t>(LoadAs<int32_t>(&parts.group_of[column * sizeof(int32_t)]));
}

class Int4Matrix final : public PackedMatrix {
 public:
  explicit Int4Matrix(const PackedInt4& parts) : parts_(parts) {}

  void Row(size_t row, float* out) const override {
    std::vector<int> codes(parts_.columns);
    parts_.codes.Row(row, parts_.columns, codes.data());
    std::vector<int> zeros(parts_.groups, kMiddle);
    if (!parts_.zeros.words.empty()) parts_.zeros.Row(row, parts_.groups, zeros.data());
    std::vector<float> scales(parts_.groups);
    const size_t bytes = BlockBytes(parts_.scale_type);
    for (size_t group = 0; group < parts_.groups; ++group) {
      const size_t at =
          parts_.scales_by_group ? group * parts_.rows + row : row * parts_.groups + group;
      DequantizeRow(parts_.scale_type, &parts_.scales[at * bytes], 1, &scales[group]);
    }
    for (size_t column = 0; column < parts_.columns; ++column) {
      const size_t group = GroupOf(parts_, column);
      out[column] = static_cast<float>(codes[column] - zeros[group]) * scales[group];
    }
  }

  std::vector<StoredBytes> Parts() const override {
    return {parts_.codes.words, parts_.zeros.words, parts_.scales, parts_.group_of};
  }

 private:
  const PackedInt4 parts_;
};

class BlockMatrix final : public PackedMatrix {
 public:
  explicit BlockMatrix(const BlockedE4M3& parts) : parts_(parts) {}

  void Row(size_t row, float* out) const override {
    const BlockedE4M3& all = parts_;
    DequantizeRow(StorageType::kE4M3, &all.codes[row * all.columns], all.columns, out);
    const size_t blocks = (all.columns + all.block_columns - 1) / all.block_columns;
    std::vector<float> scales(blocks);
    DequantizeRow(all.scale_type,
                  &all.scales[row / all.block_rows * blocks * BlockBytes(all.scale_type)], blocks,
                  scales.data());
    for (size_t column = 0; column < all.columns; ++column) {
      out[column] *= scales[column / all.block_columns];
    }
  }

  std::vector<StoredBytes> Parts() const override { return {parts_.codes, parts_.scales}; }

 private:
  const BlockedE4M3 parts_;
};

}  // namespace

void Nibbles::Row(size_t row, size_t columns, int* out) const {
  const size_t first = (neighbours_are_rows ? row / kCodesInWord : row) * row_step;
  for (size_t column = 0; column < columns; ++column) {
    const size_t step = neighbours_are_rows ? column : column / kCodesInWord;
    const int place = places[(neighbours_are_rows ? row : column) % kCodesInWord];
    const auto word = LoadAs<uint32_t>(&words[(first + step * column_step) * sizeof(uint32_t)]);
    out[column] = static_cast<int>((word + added) >> (4 * place) & 0xf);
  }
}

std::shared_ptr<const PackedMatrix> MakePacked(const PackedInt4& parts) {
  return std::make_shared<Int4Matrix>(parts);
}

std::shared_ptr<const PackedMatrix> MakePacked(const BlockedE4M3& parts) {
  return std::make_shared<BlockMatrix>(parts);
}

}  // namespace folio::model
