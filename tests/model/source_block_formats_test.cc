// Models whose matrices are in each of the quantised formats of GGUF: their rows reach the model in
// the right order, and damaged scales are refused. test_block_formats.py compares the formats
// themselves with another implementation.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/block_formats.h"
#include "services/model/source/gguf_tensor_types.h"
#include "services/model/source/model_source.h"
#include "tests/model/source_reading.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufImage;
using ::folio::testing::GgufTensor;
using ::folio::testing::TinyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Case {
  const char* type;
  std::vector<size_t> halves;  // the places of half-precision numbers in a block
};

// Prints the name of the type alone.
void PrintTo(const Case& each, std::ostream* out) { *out << each.type; }

const Case kCases[] = {
    {"Q8_0", {0}},    {"Q4_0", {0}},    {"Q4_1", {0, 2}},   {"Q5_0", {0}},
    {"Q5_1", {0, 2}}, {"IQ4_NL", {0}},  {"Q2_K", {80, 82}}, {"Q3_K", {108}},
    {"Q4_K", {0, 2}}, {"Q5_K", {0, 2}}, {"Q6_K", {208}},    {"IQ4_XS", {0}},
};

constexpr uint32_t kHeadDim = 64;

// Rows of whole blocks of 256.
GgufImage Image() {
  return TinyModel({.hidden = 256, .ffn = 256, .heads = 4, .kv_heads = 2, .head_dim = kHeadDim})
      .Gguf(StorageType::kF32);
}

void SetHalf(uint16_t half, size_t at, std::string& bytes) {
  std::memcpy(bytes.data() + at, &half, sizeof half);
}

// Gives the matrix random blocks of the type, whose scales are 2^-10.
void Requantise(const Case& each, GgufTensor& tensor) {
  const GgufTensorType& type = *FindTensorType(each.type);
  const size_t values = tensor.extents[0] * tensor.extents[1];
  std::mt19937 random(7);
  std::string bytes(values / BlockValues(type.type) * BlockBytes(type.type), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (size_t block = 0; block < bytes.size(); block += BlockBytes(type.type)) {
    for (const size_t at : each.halves) SetHalf(0x1400, block + at, bytes);
  }
  tensor.type = type.code;
  tensor.bytes = std::move(bytes);
}

class BlockFormats : public ::testing::TestWithParam<Case> {};

TEST_P(BlockFormats, RowsAreInTheRightOrder) {
  GgufImage image = Image();
  // Rotated, so that the file has its rows in another order, and not rotated.
  for (const char* name : {"blk.1.attn_k.weight", "blk.0.ffn_up.weight"}) {
    Requantise(GetParam(), image.Tensor(name));
  }
  const auto source = OpenGguf(image);
  ASSERT_TRUE(source.ok()) << source.status();
  const struct {
    const char* name;
    Role role;
    uint32_t layer;
    bool rotated;
  } tensors[] = {{"blk.1.attn_k.weight", Role::kKey, 1, true},
                 {"blk.0.ffn_up.weight", Role::kUp, 0, false}};
  for (const auto& each : tensors) {
    const GgufTensor& stored = image.Tensor(each.name);
    const StorageType type = FindTensorType(stored.type)->type;
    const size_t columns = stored.extents[0];
    const size_t rows = stored.extents[1];
    std::vector<float> values(rows * columns);
    DequantizeRow(type, reinterpret_cast<const std::byte*>(stored.bytes.data()), values.size(),
                  values.data());
    const auto read = (*source)->ReadMatrix(each.role, each.layer);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = i / columns;
      const size_t from = each.rotated ? RowOrder{kHeadDim, kHeadDim, true}.Stored(row) : row;
      const float value = values[from * columns + i % columns];
      ASSERT_EQ((*read)[i].bits, kernels::bf16::Round(value).bits) << each.name << " at " << i;
    }
  }
}

TEST_P(BlockFormats, AScaleThatIsNotFiniteIsRefused) {
  for (const size_t at : GetParam().halves) {
    GgufImage image = Image();
    GgufTensor& tensor = image.Tensor("blk.0.ffn_up.weight");
    Requantise(GetParam(), tensor);
    const StorageType type = FindTensorType(GetParam().type)->type;
    // In the second row, with nibbles and scales that do not hide it.
    const size_t block = 256 / BlockValues(type);
    std::memset(tensor.bytes.data() + block * BlockBytes(type), 0x7e, BlockBytes(type));
    for (const size_t half : GetParam().halves) {
      SetHalf(0x1400, block * BlockBytes(type) + half, tensor.bytes);
    }
    SetHalf(0x7e00, block * BlockBytes(type) + at, tensor.bytes);
    const auto source = OpenGguf(image);
    ASSERT_TRUE(source.ok()) << source.status();
    const auto read = (*source)->ReadMatrix(Role::kUp, 0);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(read.status().message(),
                AllOf(HasSubstr("tensor blk.0.ffn_up.weight: the scale of a block is NaN"),
                      HasSubstr("at row 1, column 0")));
  }
}

TEST_P(BlockFormats, RowsOfAnotherLengthAreRefused) {
  GgufImage image = Image();
  GgufTensor& tensor = image.Tensor("blk.0.ffn_up.weight");
  Requantise(GetParam(), tensor);
  tensor.extents[0] = 250;
  const auto source = OpenGguf(image);
  EXPECT_EQ(source.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(source.status().message(),
              HasSubstr(absl::StrCat("shape [256, 250] is not possible for ", GetParam().type)));
}

INSTANTIATE_TEST_SUITE_P(All, BlockFormats, ::testing::ValuesIn(kCases),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return std::string(info.param.type);
                         });

TEST(FindTensorType, KnowsCodesAndNames) {
  EXPECT_EQ(FindTensorType(12)->name, "Q4_K");
  EXPECT_EQ(FindTensorType("Q4_K")->code, 12u);
  EXPECT_EQ(FindTensorType(4), nullptr);
  EXPECT_EQ(FindTensorType("q4_k"), nullptr);
}

}  // namespace
}  // namespace folio::model
