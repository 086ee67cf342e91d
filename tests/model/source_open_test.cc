// Models opened from both containers: configuration, tokenizer, and every weight.
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "services/model/tokenizer/tokenizer.h"
#include "tests/model/source_reading.h"
#include "tests/testing/quantize.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"
#include "tests/testing/tiny_vocabulary.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufImage;
using ::folio::testing::kTinyVocab;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyHeadDim64;
using ::folio::testing::TinyModel;
using ::folio::testing::TinyOptions;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::unique_ptr<ModelSource> Open(const std::string& path) {
  auto source = OpenModel(path);
  EXPECT_TRUE(source.ok()) << source.status();
  return source.ok() ? *std::move(source) : nullptr;
}

std::unique_ptr<ModelSource> Open(const GgufImage& image) {
  auto source = OpenGguf(image);
  EXPECT_TRUE(source.ok()) << source.status();
  return source.ok() ? *std::move(source) : nullptr;
}

const TinyOptions kModels[] = {
    {}, {.seed = 7, .tied = false}, TinyHeadDim64(), {.seed = 9, .family = "qwen2"}};

TEST(OpenModel, ReadsExactGgufFiles) {
  for (const TinyOptions& options : kModels) {
    const TinyModel model(options);
    for (const StorageType type : {StorageType::kF32, StorageType::kF16, StorageType::kBF16}) {
      const auto source = Open(model.Gguf(type));
      ASSERT_NE(source, nullptr);
      EXPECT_EQ(LargestError(*source, model), 0.0f);
    }
  }
}

TEST(OpenModel, ReadsExactDirectories) {
  for (const TinyOptions& options : kModels) {
    const TinyModel model(options);
    for (const StorageType type : {StorageType::kF32, StorageType::kF16, StorageType::kBF16}) {
      const ScratchDirectory scratch;
      model.WriteHf(scratch.path(), type);
      const auto source = Open(scratch.path());
      ASSERT_NE(source, nullptr);
      EXPECT_EQ(LargestError(*source, model), 0.0f);
    }
  }
}

// Half a step of the largest block, and what bf16 adds.
TEST(OpenModel, ReadsQuantisedGgufFiles) {
  for (const TinyOptions& options : kModels) {
    const TinyModel model(options);
    const struct {
      StorageType type;
      float bound;
    } cases[] = {
        {StorageType::kQ8_0, 0.003f}, {StorageType::kQ4_0, 0.03f}, {StorageType::kQ4_1, 0.03f}};
    for (const auto& each : cases) {
      const auto source = Open(model.Gguf(each.type));
      ASSERT_NE(source, nullptr);
      const float error = LargestError(*source, model);
      EXPECT_LT(error, each.bound);
      EXPECT_GT(error, 0.0f);
    }
  }
}

TEST(OpenModel, GivesTheConfiguration) {
  ForBothContainers(TinyModel(TinyHeadDim64()), [](const ModelSource& source) {
    const ModelConfig& config = source.config();
    EXPECT_EQ(config.name, "tiny");
    EXPECT_EQ(config.architecture, "llama");
    EXPECT_EQ(config.num_layers, 2u);
    EXPECT_EQ(config.hidden, 64u);
    EXPECT_EQ(config.ffn, 128u);
    EXPECT_EQ(config.heads, 4u);
    EXPECT_EQ(config.kv_heads, 2u);
    EXPECT_EQ(config.head_dim, 64u);
    EXPECT_EQ(config.vocab, kTinyVocab);
    EXPECT_EQ(config.context, 2048u);
    EXPECT_EQ(config.rope_theta, 10000.0f);
    EXPECT_EQ(config.norm_eps, 1e-5f);
    EXPECT_TRUE(config.tied_embeddings);
    EXPECT_THAT(config.rope_divisors, IsEmpty());
    EXPECT_FALSE(config.rope_scaling.has_value());
  });
}

TEST(OpenModel, GivesTheSameTokenizerFromBothContainers) {
  ForBothContainers(TinyModel(), [](const ModelSource& source) {
    const TokenizerSpec& spec = source.tokenizer();
    EXPECT_EQ(spec.bos_token, "<|im_start|>");
    EXPECT_EQ(spec.eos_token, "<|im_end|>");
    EXPECT_EQ(spec.chat_template, ::folio::testing::TinyChatTemplate());
    EXPECT_FALSE(spec.add_bos);
    EXPECT_EQ(spec.bos_id, ::folio::testing::kTinyImStart);
    EXPECT_THAT(spec.eos_ids, ElementsAre(::folio::testing::kTinyImEnd));
    const auto tokenizer = Tokenizer::Create(spec, source.config().vocab);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const std::string text = "the rain, and 42 <|im_end|>\xc3\xa9";
    const auto ids = (*tokenizer)->Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    std::string back;
    for (const TokenId id : *ids) back += (*tokenizer)->TokenBytes(id).value();
    EXPECT_EQ(back, text);
    EXPECT_LT(ids->size(), text.size());  // merges and the control token were used
  });
}

TEST(OpenModel, TiesTheOutputToTheEmbedding) {
  const auto tied = Open(TinyModel().Gguf(StorageType::kF16));
  const TinyModel untied({.tied = false});
  const auto two = Open(untied.Gguf(StorageType::kF16));
  ASSERT_TRUE(tied != nullptr && two != nullptr);
  const auto bits = [](const ModelSource& source, Role role) {
    std::vector<uint16_t> all;
    const auto matrix = source.ReadMatrix(role, 0).value();
    all.reserve(matrix.size());
    for (const auto value : matrix) all.push_back(value.bits);
    return all;
  };
  EXPECT_EQ(bits(*tied, Role::kEmbedding), bits(*tied, Role::kOutput));
  EXPECT_FALSE(two->config().tied_embeddings);
  EXPECT_NE(bits(*two, Role::kEmbedding), bits(*two, Role::kOutput));
}

TEST(OpenModel, ReadsRopeDivisorsOfGguf) {
  const RopeScaling scaling{
      .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 256};
  const auto source = Open(TinyModel({.rope_scaling = scaling}).Gguf(StorageType::kF32));
  ASSERT_NE(source, nullptr);
  const std::vector<float> expected = ::folio::testing::RopeDivisors(scaling, 10000, 16);
  EXPECT_EQ(source->config().rope_divisors, expected);
  EXPECT_EQ(expected.front(), 1.0f);  // fast rotations stay
  EXPECT_EQ(expected.back(), 8.0f);   // slow ones are stretched
  EXPECT_FALSE(source->config().rope_scaling.has_value());
}

TEST(OpenModel, DerivesWhatOlderGgufFilesLeaveOut) {
  GgufImage image = TinyModel({.kv_heads = 4}).Gguf(StorageType::kF32);
  image.version = 2;
  for (const char* key : {"llama.attention.key_length", "llama.attention.value_length",
                          "llama.attention.head_count_kv", "llama.rope.dimension_count",
                          "llama.rope.freq_base", "llama.vocab_size", "general.name"}) {
    image.Erase(key);
  }
  const auto source = Open(image);
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->config().head_dim, 16u);
  EXPECT_EQ(source->config().kv_heads, 4u);
  EXPECT_EQ(source->config().vocab, kTinyVocab);
  EXPECT_EQ(source->config().rope_theta, 10000.0f);
  EXPECT_EQ(source->config().name, "tiny.gguf");
}

TEST(OpenModel, HonoursAnotherAlignment) {
  const TinyModel model;
  GgufImage image = model.Gguf(StorageType::kQ8_0);
  image.alignment = 256;
  image.SetUint("general.alignment", 256);
  const auto source = Open(image);
  ASSERT_NE(source, nullptr);
  EXPECT_LT(LargestError(*source, model), 0.003f);
}

TEST(OpenModel, LeavesTensorsAloneThatItDoesNotNeed) {
  GgufImage image = TinyModel().Gguf(StorageType::kF32);
  image.tensors.push_back({"note", {3}, 16, "xyz"});  // a type nobody here reads
  image.tensors.push_back({"blk.0.attn_rot_embd.weight", {1}, 0, std::string(4, '\0')});
  EXPECT_NE(Open(image), nullptr);
}

TEST(Fingerprint, TellsModelsApart) {
  const TinyModel model;
  const std::string base = Open(model.Gguf(StorageType::kF32))->fingerprint();
  EXPECT_EQ(base.size(), 32u);
  EXPECT_EQ(Open(model.Gguf(StorageType::kF32))->fingerprint(), base);

  GgufImage moved = model.Gguf(StorageType::kF32);
  moved.SetString("general.description", "the same model, elsewhere in the file");
  EXPECT_EQ(Open(moved)->fingerprint(), base);

  GgufImage weight = model.Gguf(StorageType::kF32);
  weight.Tensor("blk.1.ffn_down.weight").bytes.back() ^= 1;
  GgufImage config = model.Gguf(StorageType::kF32);
  config.SetFloat("llama.rope.freq_base", 10001.0f);
  GgufImage swapped = model.Gguf(StorageType::kF32);
  std::swap(swapped.Tensor("blk.0.attn_k.weight").bytes,
            swapped.Tensor("blk.0.attn_v.weight").bytes);
  for (const GgufImage& other : {weight, config, swapped}) {
    EXPECT_NE(Open(other)->fingerprint(), base);
  }
  EXPECT_NE(Open(TinyModel({.seed = 3}).Gguf(StorageType::kF32))->fingerprint(), base);
}

// A manager's pool outlives a worker's version: a model that has another fingerprint after an
// update cannot use its own pages.
TEST(Fingerprint, NeverChanges) {
  const ScratchDirectory scratch;
  const auto of = [](const GgufImage& image) { return Open(image)->fingerprint(); };
  EXPECT_EQ(of(TinyModel().Gguf(StorageType::kF32)), "7b2a04566f24366e88d0ec5861151668");
  EXPECT_EQ(of(TinyModel({.seed = 7, .tied = false}).Gguf(StorageType::kQ8_0)),
            "fcacde2faf1021e91492f7f988e31be8");
  EXPECT_EQ(of(TinyModel({.family = "qwen2"}).Gguf(StorageType::kF32)),
            "1b1c16472b22143b81f9f24cdd9498ce");
  TinyModel().WriteHf(scratch.path());
  EXPECT_EQ(Open(scratch.path())->fingerprint(), "7f1081d75d2553b15dc76892f1139f47");
}

TEST(OpenModel, IsReadFromManyThreads) {
  const TinyModel model;
  const auto source = Open(model.Gguf(StorageType::kF16));
  ASSERT_NE(source, nullptr);
  std::vector<float> errors(4, -1.0f);
  std::vector<std::thread> threads;
  threads.reserve(errors.size());
  for (float& error : errors) {
    threads.emplace_back([&] { error = LargestError(*source, model); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(errors, ::testing::Each(0.0f));
}

}  // namespace
}  // namespace folio::model
