// The variants a Hugging Face directory comes in.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "services/runtime/logging.h"
#include "tests/model/source_reading.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"
#include "tests/testing/tiny_vocabulary.h"

namespace folio::model {
namespace {

using ::folio::testing::HfImage;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using ::folio::testing::WriteFile;
using nlohmann::json;
using ::testing::ElementsAre;

HfImage Image() { return TinyModel().Hf(StorageType::kBF16); }

std::unique_ptr<ModelSource> Open(const std::string& directory) {
  auto source = OpenModel(directory);
  EXPECT_TRUE(source.ok()) << source.status();
  return source.ok() ? *std::move(source) : nullptr;
}

std::unique_ptr<ModelSource> Open(const HfImage& image) {
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  return Open(scratch.path());  // the mapping outlives the files
}

TEST(HfDirectory, ShardsAreOneModel) {
  HfImage image = Image();
  const auto whole = Open(image);
  image.shards = 3;
  const auto parts = Open(image);
  ASSERT_TRUE(whole != nullptr && parts != nullptr);
  EXPECT_EQ(whole->fingerprint(), parts->fingerprint());
}

// Whatever type config.json names, each tensor is read as its file has it.
TEST(HfDirectory, TensorsOfSeveralTypesAreReadAsStored) {
  const TinyModel model({.tied = false});
  const StorageType types[] = {StorageType::kF32, StorageType::kF16, StorageType::kBF16};
  const HfImage stored[] = {model.Hf(types[0]), model.Hf(types[1]), model.Hf(types[2])};
  HfImage mixed = stored[0];
  for (size_t i = 0; i < mixed.tensors.size(); ++i) mixed.tensors[i] = stored[i % 3].tensors[i];
  for (const char* key : {"torch_dtype", "dtype"}) {
    for (const char* said : {"float32", "float16", "bfloat16", "auto"}) {
      HfImage image = mixed;
      image.config[key] = said;
      image.shards = 2;
      const auto source = Open(image);
      ASSERT_NE(source, nullptr);
      EXPECT_EQ(LargestError(*source, model), 0.0f) << key << " " << said;
    }
  }
}

TEST(HfDirectory, LlamaThreeScaling) {
  const RopeScaling scaling{
      .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 256};
  HfImage image = TinyModel({.rope_scaling = scaling}).Hf(StorageType::kF32);
  const auto older = Open(image);
  // The newer spelling has everything in one object.
  image.config["rope_parameters"] = image.config["rope_scaling"];
  image.config["rope_parameters"]["rope_theta"] = 500000.0;
  image.config.erase("rope_scaling");
  image.config.erase("rope_theta");
  const auto newer = Open(image);
  ASSERT_TRUE(older != nullptr && newer != nullptr);
  EXPECT_EQ(older->config().rope_theta, 10000.0f);
  EXPECT_EQ(newer->config().rope_theta, 500000.0f);
  for (const auto* source : {older.get(), newer.get()}) {
    ASSERT_TRUE(source->config().rope_scaling.has_value());
    const RopeScaling& read = *source->config().rope_scaling;
    EXPECT_EQ(read.factor, 8.0f);
    EXPECT_EQ(read.low_freq_factor, 1.0f);
    EXPECT_EQ(read.high_freq_factor, 4.0f);
    EXPECT_EQ(read.original_context, 256u);
  }
}

TEST(HfDirectory, DefaultsOfLeftOutFields) {
  HfImage image = TinyModel({.kv_heads = 4}).Hf(StorageType::kF32);
  for (const char* key : {"head_dim", "num_key_value_heads", "rope_theta", "_name_or_path"}) {
    image.config.erase(key);
  }
  image.config["rope_scaling"] = {{"type", "default"}};
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  const auto source = Open(scratch.path());
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->config().head_dim, 16u);
  EXPECT_EQ(source->config().kv_heads, 4u);
  EXPECT_EQ(source->config().rope_theta, 10000.0f);
  EXPECT_EQ(source->config().name, scratch.path().substr(scratch.path().rfind('/') + 1));
}

TEST(HfDirectory, SpecialTokensAsObjects) {
  HfImage image = Image();
  image.tokenizer_config["bos_token"] = {{"content", "<|im_start|>"}, {"special", true}};
  image.tokenizer_config["eos_token"] = {{"content", "<|endoftext|>"}, {"special", true}};
  const auto source = Open(image);
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->tokenizer().bos_token, "<|im_start|>");
  EXPECT_EQ(source->tokenizer().eos_token, "<|endoftext|>");
  EXPECT_THAT(source->tokenizer().eos_ids, ElementsAre(2, 0));
}

TEST(HfDirectory, EndsOfSequence) {
  HfImage image = Image();
  image.generation_config["eos_token_id"] = {0, 2, 5};
  EXPECT_THAT(Open(image)->tokenizer().eos_ids, ElementsAre(0, 2, 5));
  image.generation_config.erase("eos_token_id");
  image.config["eos_token_id"] = 1;
  EXPECT_THAT(Open(image)->tokenizer().eos_ids, ElementsAre(1, 2));
}

TEST(HfDirectory, OnlyTheTokenizerItselfMustBeThere) {
  const ScratchDirectory scratch;
  for (const auto& [name, contents] : Image().Files()) {
    if (name == "tokenizer_config.json" || name == "generation_config.json") continue;
    WriteFile(scratch.File(name), contents);
  }
  const auto source = Open(scratch.path());
  ASSERT_NE(source, nullptr);
  EXPECT_THAT(source->tokenizer().eos_ids, ElementsAre(2));  // config.json's
  EXPECT_EQ(source->tokenizer().chat_template, "");
  EXPECT_EQ(source->tokenizer().bos_token, "");
  EXPECT_FALSE(source->tokenizer().add_bos);
}

TEST(HfDirectory, TokenInFrontAsThePostProcessorSays) {
  HfImage image = Image();
  image.tokenizer_config.erase("add_bos_token");
  EXPECT_FALSE(Open(image)->tokenizer().add_bos);
  const json single = {{{"SpecialToken", {{"id", "<|im_start|>"}, {"type_id", 0}}}},
                       {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}};
  const json with = {{"type", "TemplateProcessing"}, {"single", single}};
  image.tokenizer["post_processor"] = {
      {"type", "Sequence"}, {"processors", json::array({{{"type", "ByteLevel"}}, with})}};
  EXPECT_TRUE(Open(image)->tokenizer().add_bos);
  EXPECT_EQ(Open(image)->tokenizer().bos_id, 1u);
  image.tokenizer_config["add_bos_token"] = false;
  EXPECT_FALSE(Open(image)->tokenizer().add_bos);
}

TEST(HfDirectory, ChatTemplates) {
  HfImage image = Image();
  image.tokenizer_config["chat_template"] =
      json::array({{{"name", "tool_use"}, {"template", "tools"}},
                   {{"name", "default"}, {"template", "plain"}}});
  EXPECT_EQ(Open(image)->tokenizer().chat_template, "plain");
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  WriteFile(scratch.File("chat_template.jinja"), "file");
  EXPECT_EQ(Open(scratch.path())->tokenizer().chat_template, "file");
}

TEST(HfDirectory, AnOutputMatrixOfTiedEmbeddingsIsLeftAlone) {
  const TinyModel untied({.tied = false});
  HfImage image = untied.Hf(StorageType::kBF16);
  image.config["tie_word_embeddings"] = true;
  const auto source = Open(image);
  ASSERT_NE(source, nullptr);
  const auto output = source->ReadMatrix(Role::kOutput, 0).value();
  const auto& embedding = untied.Find(Role::kEmbedding, 0).values;
  for (size_t i = 0; i < output.size(); ++i) ASSERT_EQ(output[i].ToFloat(), embedding[i]);
}

TEST(HfDirectory, ATensorThatIsNotNeededIsToldAsAnyLogLine) {
  HfImage image = Image();
  image.tensors.push_back({"rotary_emb.inv_freq", "F32", {1}, std::string(4, '\0')});
  log::Configure(log::Format::kJson, log::Level::kInfo);
  ::testing::internal::CaptureStderr();
  const auto source = Open(image);
  const std::string said = ::testing::internal::GetCapturedStderr();
  log::Configure(log::Format::kText, log::Level::kInfo);
  ASSERT_NE(source, nullptr);
  const json line = json::parse(said, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(line.is_object()) << said;
  EXPECT_EQ(line["message"], "tensor is not needed, ignored");
  EXPECT_EQ(line["tensor"], "rotary_emb.inv_freq");
}

}  // namespace
}  // namespace folio::model
