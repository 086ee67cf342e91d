// Hugging Face directories with matrices of 4 bits and of blocks in E4M3: their numbers, and what
// is refused of them.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "services/model/tp/shard.h"
#include "tests/model/packed_image.h"
#include "tests/model/source_reading.h"
#include "tests/testing/quantize.h"
#include "tests/testing/scratch_directory.h"

namespace folio::model {
namespace {

using ::folio::testing::HfImage;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyOptions;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<ModelSource>> Open(const HfImage& image) {
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  return OpenModel(scratch.path());  // the mapping outlives the files
}

bool SameBits(const std::vector<kernels::bf16>& a, const std::vector<kernels::bf16>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](kernels::bf16 x, kernels::bf16 y) { return x.bits == y.bits; });
}

struct Form {
  const char* name;
  Packing packing;
  uint32_t group;
  TinyOptions model = {};
};

std::vector<Form> Forms() {
  TinyOptions qwen2;
  qwen2.family = "qwen2";
  return {
      {"Awq32", Packing::kAwq, 32},
      {"AwqRow", Packing::kAwq, 0},
      {"AwqBiases", Packing::kAwq, 32, qwen2},
      {"Gptq32", Packing::kGptq, 32},
      {"GptqRow", Packing::kGptq, 0},
      {"GptqOrder", Packing::kGptqOrder, 32},
      {"GptqV2", Packing::kGptqV2, 64},
      {"PackQuantized", Packing::kPackQuantized, 32},
      {"PackQuantizedRow", Packing::kPackQuantized, 0},
      {"PackQuantizedZeros", Packing::kPackQuantizedZeros, 32},
      {"Blocks", Packing::kBlocks, 32},
      {"BlocksLargerThanMatrices", Packing::kBlocks, 128},
      {"BlocksThatDoNotDivide", Packing::kBlocks, 48},
  };
}

class HfPacked : public ::testing::TestWithParam<Form> {};

TEST_P(HfPacked, HasTheNumbersOfTheCodes) {
  const Form& form = GetParam();
  const PackedPair pair = MakePackedPair(form.packing, form.group, form.model);
  const auto packed = Open(pair.packed);
  ASSERT_TRUE(packed.ok()) << packed.status();
  const auto plain = Open(pair.plain);
  ASSERT_TRUE(plain.ok()) << plain.status();
  std::vector<std::vector<kernels::bf16>> matrices[2];
  std::vector<std::vector<float>> vectors[2];
  ASSERT_TRUE(ReadAll(**packed, matrices[0], vectors[0]).ok());
  ASSERT_TRUE(ReadAll(**plain, matrices[1], vectors[1]).ok());
  EXPECT_EQ(vectors[0], vectors[1]);
  ASSERT_EQ(matrices[0].size(), matrices[1].size());
  for (size_t i = 0; i < matrices[0].size(); ++i) {
    EXPECT_TRUE(SameBits(matrices[0][i], matrices[1][i])) << i;
  }
  EXPECT_NE((*packed)->fingerprint(), (*plain)->fingerprint());
}

INSTANTIATE_TEST_SUITE_P(Forms, HfPacked, ::testing::ValuesIn(Forms()),
                         [](const ::testing::TestParamInfo<Form>& info) {
                           return info.param.name;
                         });

TEST(HfPackedModel, AShardHasPartsOfTheWhole) {
  const PackedPair pair = MakePackedPair(Packing::kGptqOrder, 32);
  const auto packed = Open(pair.packed);
  const auto plain = Open(pair.plain);
  ASSERT_TRUE(packed.ok() && plain.ok()) << packed.status();
  const auto shards = *ShardForAll((*packed)->config(), 2);
  const ShardSource of_packed(**packed, shards[1]);
  const ShardSource of_plain(**plain, shards[1]);
  for (const Role role : kMatrixRoles) {
    const auto got = of_packed.ReadMatrix(role, 1);
    const auto want = of_plain.ReadMatrix(role, 1);
    ASSERT_TRUE(got.ok() && want.ok()) << got.status();
    EXPECT_TRUE(SameBits(*got, *want));
    const auto codes = of_packed.ReadScaled(role, 1);
    const auto want_codes = of_plain.ReadScaled(role, 1);
    ASSERT_TRUE(codes.ok() && want_codes.ok());
    EXPECT_EQ(codes->scales, want_codes->scales);
  }
}

TEST(HfPackedModel, EachPartIsOfTheFingerprint) {
  const HfImage image = MakePackedPair(Packing::kGptqOrder, 32).packed;
  const auto whole = Open(image);
  ASSERT_TRUE(whole.ok());
  for (const char* ending : {"qweight", "qzeros", "scales"}) {
    HfImage other = image;
    other.Tensor(std::string("model.layers.1.mlp.up_proj.") + ending).bytes[0] ^= 1;
    const auto changed = Open(other);
    ASSERT_TRUE(changed.ok()) << changed.status();
    EXPECT_NE((*changed)->fingerprint(), (*whole)->fingerprint()) << ending;
  }
}

// AutoGPTQ writes such biases.
TEST(HfPackedModel, ABiasOfZerosBesideCodesIsLeftOut) {
  for (const char value : {'\0', '\1'}) {
    HfImage image = MakePackedPair(Packing::kGptq, 32).packed;
    const std::string name = "model.layers.0.mlp.down_proj.bias";
    image.tensors.push_back({name, "F16", {64}, std::string(128, value)});
    const absl::Status status = Open(image).status();
    EXPECT_EQ(status.ok(), value == '\0') << status;
    if (value != '\0') {
      EXPECT_THAT(std::string(status.message()), HasSubstr(name));
    }
  }
}

}  // namespace
}  // namespace folio::model
