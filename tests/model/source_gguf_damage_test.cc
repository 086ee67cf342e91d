// GGUF files whose structure or values are damaged.
#include "tests/model/source_gguf_damage.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufImage;
using ::folio::testing::GgufTensor;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::WriteFile;
using ::testing::HasSubstr;

using enum absl::StatusCode;

// Overwrites bytes at `at`.
std::function<void(GgufTensor&)> Bytes(size_t at, std::string bytes) {
  return [=](GgufTensor& tensor) { tensor.bytes.replace(at, bytes.size(), bytes); };
}

std::string Raw64(uint64_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

std::string Raw32(uint32_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

std::vector<GgufDamage> ContainerDamage() {
  return {
      {"WrongMagic", [](GgufImage& i) { i.magic = 0x46474746; }, kDataLoss, "wrong magic"},
      {"VersionOne", [](GgufImage& i) { i.version = 1; }, kUnimplemented, "GGUF version 1,"},
      {"VersionFour", [](GgufImage& i) { i.version = 4; }, kUnimplemented, "GGUF version 4,"},
      {"BigEndian", [](GgufImage& i) { i.version = 0x03000000; }, kUnimplemented, "big-endian"},
      {"TooManyFields", [](GgufImage& i) { i.field_count = i.fields.size() + 1; }, kDataLoss, ""},
      {"AbsurdFieldCount", [](GgufImage& i) { i.field_count = ~uint64_t{0}; }, kDataLoss, ""},
      {"AbsurdTensorCount", [](GgufImage& i) { i.tensor_count = ~uint64_t{0}; }, kDataLoss, ""},
      {"FieldTwice", [](GgufImage& i) { i.fields.push_back(i.fields.front()); }, kDataLoss,
       "general.architecture: appears twice"},
      {"UnknownValueType",
       [](GgufImage& i) { i.SetRaw("llama.block_count", static_cast<GgufType>(77), Raw32(2)); },
       kDataLoss, "llama.block_count: unknown value type 77"},
      {"AbsurdString",
       [](GgufImage& i) { i.SetRaw("general.name", GgufType::kString, Raw64(~uint64_t{7})); },
       kDataLoss, "general.name: truncated"},
      {"AbsurdArray",
       [](GgufImage& i) {
         i.SetRaw("tokenizer.ggml.token_type", GgufType::kArray,
                  Raw32(5) + Raw64(uint64_t{1} << 62));
       },
       kDataLoss, "tokenizer.ggml.token_type: array of 4611686018427387904 elements"},
      {"AbsurdStrings",
       [](GgufImage& i) {
         i.SetRaw("tokenizer.ggml.merges", GgufType::kArray, Raw32(8) + Raw64(1) + Raw64(1u << 30));
       },
       kDataLoss, "tokenizer.ggml.merges: truncated in an array of strings"},
      {"ArrayOfArrays",
       [](GgufImage& i) { i.SetRaw("general.tags", GgufType::kArray, Raw32(9) + Raw64(0)); },
       kUnimplemented, "general.tags: an array of arrays"},
      {"UnknownArrayType",
       [](GgufImage& i) { i.SetRaw("general.tags", GgufType::kArray, Raw32(99) + Raw64(0)); },
       kDataLoss, "general.tags: array of unknown type 99"},
      {"AlignmentOfThree", Uint("general.alignment", 3), kDataLoss,
       "general.alignment: not a power"},
      {"AlignmentOfZero", Uint("general.alignment", 0), kDataLoss,
       "general.alignment: not a power"},
      {"AlignmentAsText", String("general.alignment", "32"), kDataLoss, "general.alignment: not a"},
      {"OtherAlignmentThanItsLayout", Uint("general.alignment", 4096), kDataLoss, "alignment 4096"},
  };
}

std::vector<GgufDamage> TensorDamage() {
  const char* query = "blk.0.attn_q.weight";
  return {
      {"TensorTwice", [](GgufImage& i) { i.tensors.push_back(i.tensors.front()); }, kDataLoss,
       "tensor token_embd.weight: appears twice"},
      {"NoDimensions", Tensor(query, [](GgufTensor& t) { t.extents.clear(); }), kDataLoss,
       "blk.0.attn_q.weight: 0 dimensions"},
      {"FiveDimensions",
       Tensor(query,
              [](GgufTensor& t) {
                t.extents = {64, 1, 1, 1, 64};
              }),
       kDataLoss, "blk.0.attn_q.weight: 5 dimensions"},
      {"EmptyDimension",
       Tensor(query,
              [](GgufTensor& t) {
                t.extents = {0, 64};
              }),
       kDataLoss, "blk.0.attn_q.weight: empty shape [64, 0]"},
      {"ShapeOverflows",
       Tensor(query,
              [](GgufTensor& t) {
                t.extents = {1u << 31, 1u << 31, 1u << 31};
              }),
       kDataLoss,
       "blk.0.attn_q.weight: shape [2147483648, 2147483648, 2147483648] is not possible"},
      {"ShapeOfNoWholeBlocks",
       Tensor(query,
              [](GgufTensor& t) {
                t.extents = {63, 64};
              }),
       kDataLoss, "shape [64, 63] is not possible for Q8_0", StorageType::kQ8_0},
      {"LargerThanTheFile",
       Tensor(query,
              [](GgufTensor& t) {
                t.extents = {64, 1u << 20};
              }),
       kDataLoss, "blk.0.attn_q.weight: needs 268435456 bytes"},
      {"OffsetBeyondTheFile", Tensor(query, [](GgufTensor& t) { t.offset = uint64_t{1} << 40; }),
       kDataLoss, "blk.0.attn_q.weight: offset 1099511627776 is beyond"},
      {"OffsetAtTheTop", Tensor(query, [](GgufTensor& t) { t.offset = ~uint64_t{31}; }), kDataLoss,
       "blk.0.attn_q.weight: offset 18446744073709551584 is beyond"},
      {"OffsetNotAligned", Tensor(query, [](GgufTensor& t) { t.offset = 4; }), kDataLoss,
       "blk.0.attn_q.weight: offset 4 is not a multiple of the alignment 32"},
      {"Overlap", Tensor(query, [](GgufTensor& t) { t.offset = 32; }), kDataLoss,
       "blk.0.attn_q.weight: overlaps tensor token_embd.weight"},
      {"TypeNotSupported", Tensor(query, [](GgufTensor& t) { t.type = 16; }), kUnimplemented,
       "blk.0.attn_q.weight: type IQ2_XXS is not supported"},
      {"TypeUnknown", Tensor(query, [](GgufTensor& t) { t.type = 200; }), kUnimplemented,
       "blk.0.attn_q.weight: type type 200 is not supported"},
      {"WrongShape",
       Tensor(query,
              [](GgufTensor& t) {
                t.extents = {32, 128};
              }),
       kInvalidArgument, "blk.0.attn_q.weight: shape [128, 32], expected [64, 64]"},
      {"Transposed",
       Tensor("blk.1.ffn_up.weight",
              [](GgufTensor& t) {
                t.extents = {128, 64};
              }),
       kInvalidArgument, "blk.1.ffn_up.weight: shape [64, 128], expected [128, 64]"},
      {"NormAsMatrix",
       Tensor("output_norm.weight",
              [](GgufTensor& t) {
                t.extents = {64, 1};
              }),
       kInvalidArgument, "output_norm.weight: shape [1, 64], expected [64]"},
      {"MissingTensor", [](GgufImage& i) { i.EraseTensor("blk.1.attn_v.weight"); },
       kInvalidArgument, "tensor blk.1.attn_v.weight: missing"},
      {"MissingEmbedding", [](GgufImage& i) { i.EraseTensor("token_embd.weight"); },
       kInvalidArgument, "tensor token_embd.weight: missing"},
      {"NoTensors", [](GgufImage& i) { i.tensors.clear(); }, kInvalidArgument,
       "tensor token_embd.weight: missing"},
      {"Bias",
       [](GgufImage& i) {
         i.tensors.push_back({"blk.0.attn_q.bias", {64}, 0, std::string(256, '\0')});
       },
       kUnimplemented, "blk.0.attn_q.bias: not part of a 2-layer Llama"},
      {"LayerTooMany",
       [](GgufImage& i) {
         i.tensors.push_back({"blk.2.attn_q.weight", {64}, 0, std::string(256, '\0')});
       },
       kUnimplemented, "blk.2.attn_q.weight: not part of a 2-layer Llama"},
      {"RopeFreqsOfWrongLength",
       [](GgufImage& i) {
         i.tensors.push_back({"rope_freqs.weight", {4}, 0, std::string(16, '\x3f')});
       },
       kInvalidArgument, "rope_freqs.weight: shape [4], expected [8]"},
      {"RopeFreqsOfZero",
       [](GgufImage& i) {
         i.tensors.push_back({"rope_freqs.weight", {8}, 0, std::string(32, '\0')});
       },
       kInvalidArgument, "rope_freqs.weight: a divisor that is not positive"},
  };
}

std::vector<GgufDamage> ValueDamage() {
  const char* key = "blk.1.attn_k.weight";
  const std::string half_nan("\x00\x7e", 2);
  const std::string half_inf("\x00\x7c", 2);
  const std::string bf16_nan("\xc0\x7f", 2);
  const char* scale = "tensor blk.1.attn_k.weight: the scale of a block is NaN";
  const char* value = "tensor blk.1.attn_k.weight: a value is NaN";
  return {
      {"NanInF32", Tensor(key, Bytes(128, Raw32(0x7fc00000))), kDataLoss, value},
      {"InfinityInF32", Tensor(key, Bytes(0, Raw32(0xff800000))), kDataLoss, value},
      {"NanInF16", Tensor(key, Bytes(2, half_nan)), kDataLoss, value, StorageType::kF16},
      {"NanInBF16", Tensor(key, Bytes(2, bf16_nan)), kDataLoss, value, StorageType::kBF16},
      {"NanScaleInQ8", Tensor(key, Bytes(0, half_nan)), kDataLoss, scale, StorageType::kQ8_0},
      {"InfiniteScaleInQ4", Tensor(key, Bytes(18, half_inf)), kDataLoss, scale, StorageType::kQ4_0},
      {"NanScaleInQ41", Tensor(key, Bytes(20, half_nan)), kDataLoss, scale, StorageType::kQ4_1},
      {"NanOffsetInQ41", Tensor(key, Bytes(2, half_nan)), kDataLoss, scale, StorageType::kQ4_1},
      {"NanInNorm", Tensor("blk.0.ffn_norm.weight", Bytes(4, Raw32(0x7fc00000))), kDataLoss,
       "blk.0.ffn_norm.weight: a value is NaN, infinite or out of range at 1"},
  };
}

class GgufBytes : public ::testing::TestWithParam<GgufDamage> {};

TEST_P(GgufBytes, IsRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const ::testing::TestParamInfo<GgufDamage>& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Container, GgufBytes, ::testing::ValuesIn(ContainerDamage()), kName);
INSTANTIATE_TEST_SUITE_P(Tensors, GgufBytes, ::testing::ValuesIn(TensorDamage()), kName);
INSTANTIATE_TEST_SUITE_P(Values, GgufBytes, ::testing::ValuesIn(ValueDamage()), kName);

TEST(OpenModel, RefusesWhatIsNoModel) {
  const ScratchDirectory scratch;
  EXPECT_EQ(Load(scratch.File("none")).code(), kNotFound);
  WriteFile(scratch.File("empty.gguf"), "");
  EXPECT_EQ(Load(scratch.File("empty.gguf")).code(), kDataLoss);
  EXPECT_EQ(Load("/dev/null").code(), kInvalidArgument);
  EXPECT_EQ(Load(scratch.path()).code(), kNotFound);
  EXPECT_THAT(Load(scratch.path()).message(), HasSubstr("config.json"));
}

}  // namespace
}  // namespace folio::model
