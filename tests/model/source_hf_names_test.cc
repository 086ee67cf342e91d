// Hugging Face directories whose tensors have other names than the family's list, or one tensor for
// the embedding and the output matrix.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "tests/model/source_hf_damage.h"
#include "tests/model/source_reading.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::HfImage;
using ::folio::testing::HfTensor;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using ::folio::testing::TinyOptions;

using enum absl::StatusCode;

constexpr char kEmbedding[] = "model.embed_tokens.weight";
constexpr char kHead[] = "lm_head.weight";

absl::StatusOr<std::unique_ptr<ModelSource>> Open(const HfImage& image) {
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  return OpenModel(scratch.path());  // the mapping outlives the files
}

// Puts `model` in place of "model.", and `other` in front of all other names.
void Rename(HfImage& image, const std::string& model, const std::string& other) {
  for (HfTensor& tensor : image.tensors) {
    const bool in_model = tensor.name.starts_with("model.");
    tensor.name = in_model ? model + tensor.name.substr(6) : other + tensor.name;
  }
}

void AddTensor(HfImage& image, const std::string& name) {
  image.tensors.push_back({name, "F32", {2}, std::string(8, '\0')});
}

std::vector<uint16_t> Bits(const ModelSource& source, Role role) {
  std::vector<uint16_t> bits;
  const auto matrix = source.ReadMatrix(role, 0).value();
  bits.reserve(matrix.size());
  for (const kernels::bf16 value : matrix) bits.push_back(value.bits);
  return bits;
}

TEST(HfTied, TheOutputMatrixStandsForBoth) {
  for (const char* family :
       {"llama", "qwen2", "mistral", "qwen3", "ministral3", "gemma3", "granite", "smollm3"}) {
    HfImage image = TinyModel({.family = family}).Hf(StorageType::kBF16);
    const auto usual = Open(image);
    image.Tensor(kEmbedding).name = kHead;
    const auto other = Open(image);
    ASSERT_TRUE(usual.ok() && other.ok()) << usual.status() << other.status();
    EXPECT_EQ(Bits(**other, Role::kEmbedding), Bits(**usual, Role::kEmbedding));
    EXPECT_EQ(Bits(**other, Role::kOutput), Bits(**usual, Role::kOutput));
    EXPECT_EQ((*other)->fingerprint(), (*usual)->fingerprint());
  }
}

TEST(HfTied, TheOutputMatrixStandsForBothInShards) {
  HfImage image = TinyModel().Hf(StorageType::kBF16);
  image.Tensor(kEmbedding).name = kHead;
  image.shards = 3;
  const auto source = Open(image);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(Bits(**source, Role::kEmbedding), Bits(**source, Role::kOutput));
}

// Each place that checkpoints of one model are saved from.
TEST(HfNames, ThoseOfOtherPlacesAreRead) {
  for (const bool tied : {true, false}) {
    const HfImage image = TinyModel({.tied = tied}).Hf(StorageType::kBF16);
    const auto usual = Open(image);
    ASSERT_TRUE(usual.ok()) << usual.status();
    const std::pair<const char*, const char*> places[] = {
        {"", ""}, {"language_model.model.", "language_model."}, {"model.language_model.", ""}};
    for (const auto& [model, other] : places) {
      HfImage renamed = image;
      Rename(renamed, model, other);
      AddTensor(renamed, absl::StrCat(model, "layers.0.self_attn.rotary_emb.inv_freq"));
      for (const int shards : {1, 2}) {
        renamed.shards = shards;
        const auto source = Open(renamed);
        ASSERT_TRUE(source.ok()) << source.status();
        EXPECT_EQ((*source)->fingerprint(), (*usual)->fingerprint());
      }
    }
  }
}

TEST(HfNames, ABaseModelMayHaveItsOutputMatrixAlone) {
  HfImage image = TinyModel().Hf(StorageType::kBF16);
  Rename(image, "", "");
  image.Tensor("embed_tokens.weight").name = kHead;
  const auto source = Open(image);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(Bits(**source, Role::kEmbedding), Bits(**source, Role::kOutput));
}

HfDamage Named(const char* name, const char* model, const char* other, EditImage edit,
               absl::StatusCode code, const char* words) {
  return InImage(
      name,
      [=, edit = std::move(edit)](HfImage& image) {
        Rename(image, model, other);
        edit(image);
      },
      code, words);
}

HfDamage Extra(const char* name, const char* tensor, const char* words) {
  return InImage(
      name, [=](HfImage& image) { AddTensor(image, tensor); }, kUnimplemented, words);
}

HfDamage OtherInput(const char* name, const char* field, const char* words) {
  return InImage(
      name,
      [=](HfImage& image) {
        image.config[field] = {{"hidden_size", 8}};
        image.config["architectures"] = {"LlavaForConditionalGeneration"};
      },
      kUnimplemented, words);
}

std::vector<HfDamage> NameDamage() {
  std::vector<HfDamage> damages = {
      Named(
          "MissingInABaseModel", "", "",
          [](HfImage& i) { i.EraseTensor("layers.1.mlp.up_proj.weight"); }, kInvalidArgument,
          ": tensor layers.1.mlp.up_proj.weight: missing"),
      Named(
          "MissingInALanguageModel", "language_model.model.", "language_model.",
          [](HfImage& i) { i.EraseTensor("language_model.model.norm.weight"); }, kInvalidArgument,
          ": tensor language_model.model.norm.weight: missing"),
      Named(
          "BaseModelUntied", "", "", [](HfImage& i) { i.config["tie_word_embeddings"] = false; },
          kInvalidArgument,
          "tensor lm_head.weight: missing (with tie_word_embeddings: true in config.json"),
      Named(
          "LayersOfTwoPlaces", "", "",
          [](HfImage& i) { AddTensor(i, "model.layers.0.mlp.up_proj.weight"); }, kUnimplemented,
          "tensor model.layers.0.mlp.up_proj.weight: not part of a 2-layer Llama"),
      Named(
          "BiasInABaseModel", "", "", [](HfImage& i) { AddTensor(i, "layers.0.mlp.up_proj.bias"); },
          kUnimplemented, "tensor layers.0.mlp.up_proj.bias: not part of a 2-layer Llama"),
      Extra("VisionTower", "model.vision_tower.blocks.0.norm.weight",
            "model.vision_tower.blocks.0.norm.weight: \"vision_tower\" is a network for other"),
      Extra("VisionTowerBesideTheModel", "vision_tower.patch_embed.weight", "\"vision_tower\" is"),
      Extra("Projector", "multi_modal_projector.linear_1.weight", "\"multi_modal_projector\" is"),
      OtherInput("Images", "vision_config", "config.json: vision_config: a model for other input"),
      OtherInput("Sounds", "audio_config", "config.json: audio_config: a model for other input"),
      OtherInput("TextInside", "text_config", "config.json: text_config: a model for other input"),
  };
  const TinyOptions untied = {.tied = false};
  HfDamage one = InImage(
      "OutputMatrixForBothUntied", [](HfImage& i) { i.EraseTensor(kEmbedding); }, kInvalidArgument,
      "tensor model.embed_tokens.weight: missing (with tie_word_embeddings: true in config.json "
      "the output matrix would take its place)");
  one.model = untied;
  damages.push_back(one);
  damages.push_back(InImage(
      "NeitherOfTheTied", [](HfImage& i) { i.EraseTensor(kEmbedding); }, kInvalidArgument,
      "tensor model.embed_tokens.weight: missing"));
  return damages;
}

class HfTensorNames : public ::testing::TestWithParam<HfDamage> {};

TEST_P(HfTensorNames, AreRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const ::testing::TestParamInfo<HfDamage>& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Damage, HfTensorNames, ::testing::ValuesIn(NameDamage()), kName);

}  // namespace
}  // namespace folio::model
