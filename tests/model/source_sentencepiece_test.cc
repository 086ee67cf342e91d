// Models whose vocabularies are SentencePiece's: the fields of a GGUF file, and tokenizer.json.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/tokenizer/tokenizer.h"
#include "tests/model/source_gguf_damage.h"
#include "tests/model/source_reading.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"
#include "tests/testing/tiny_vocabulary.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufImage;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using ::folio::testing::WriteFile;
using ::testing::ElementsAre;

// Tokens 3 to 8 are "xy", "x", "y", "z", "yz" and U+2581.
GgufImage WithPieces(const char* model) {
  GgufImage image = TinyModel().Gguf(StorageType::kF32);
  std::vector<std::string> tokens = ::folio::testing::TinyTokens();
  const std::vector<std::string> pieces = {"xy", "x", "y", "z", "yz", "\u2581"};
  std::vector<float> scores(tokens.size(), -9);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i >= 3) tokens[i] = i < 9 ? pieces[i - 3] : "piece" + std::to_string(i);
    if (i >= 3) scores[i] = -static_cast<float>(i);
  }
  std::vector<int32_t> types = ::folio::testing::TinyTokenTypes();
  types[0] = 2;
  std::string bytes;
  const auto append = [&bytes](const auto& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  append(static_cast<uint32_t>(GgufType::kFloat32));
  append(static_cast<uint64_t>(scores.size()));
  for (const float score : scores) append(score);
  image.SetRaw("tokenizer.ggml.scores", GgufType::kArray, bytes);
  image.SetString("tokenizer.ggml.model", model);
  image.SetStrings("tokenizer.ggml.tokens", tokens);
  image.SetInts("tokenizer.ggml.token_type", types);
  image.SetUint("tokenizer.ggml.unknown_token_id", 0);
  return image;
}

std::vector<uint32_t> Ids(const std::string& path, const std::string& text) {
  const auto source = OpenModel(path);
  EXPECT_TRUE(source.ok()) << source.status();
  const auto tokenizer = Tokenizer::Create((*source)->tokenizer(), (*source)->config().vocab);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::vector<uint32_t> ids;
  const std::vector<TokenId> tokens = (*tokenizer)->Encode(text).value();
  for (const TokenId id : tokens) ids.push_back(id.value());
  return ids;
}

TEST(SourceSentencePiece, AGgufFilesFieldsCount) {
  const ScratchDirectory scratch;
  const std::string path = scratch.File("tiny.gguf");
  for (const char* model : {"llama", "t5"}) {
    GgufImage image = WithPieces(model);
    WriteFile(path, image.Serialize());
    EXPECT_THAT(Ids(path, "xyz  "), ElementsAre(8, 3, 6, 8, 8));
    image.SetBool("tokenizer.ggml.add_space_prefix", false);
    image.SetBool("tokenizer.ggml.remove_extra_whitespaces", true);
    image.SetBool("tokenizer.ggml.add_bos_token", true);
    WriteFile(path, image.Serialize());
    EXPECT_THAT(Ids(path, "xyz  "), ElementsAre(::folio::testing::kTinyImStart, 3, 6));
  }
}

TEST(SourceSentencePiece, DamagedFieldsAreNamed) {
  using enum absl::StatusCode;
  const auto scores_as_integers = [](GgufImage& image) {
    image.SetString("tokenizer.ggml.model", "llama");
    image.SetInts("tokenizer.ggml.scores", {1, 2});
  };
  const auto adds_eos = [](GgufImage& i) { i.SetBool("tokenizer.ggml.add_eos_token", true); };
  const GgufDamage damages[] = {
      {"NoScores", String("tokenizer.ggml.model", "llama"), kInvalidArgument,
       "tokenizer.ggml.scores has 0 entries"},
      {"ScoresAsIntegers", scores_as_integers, kInvalidArgument,
       "tokenizer.ggml.scores: not an array of 32-bit floats"},
      {"CharsmapAsText", String("tokenizer.ggml.precompiled_charsmap", "abc"), kInvalidArgument,
       "tokenizer.ggml.precompiled_charsmap: not an array of 8-bit integers"},
      {"SpacePrefixAsText", String("tokenizer.ggml.add_space_prefix", "no"), kInvalidArgument,
       "tokenizer.ggml.add_space_prefix: not a boolean"},
      {"AddsEos", adds_eos, kUnimplemented, "tokenizer.ggml.add_eos_token: true"},
  };
  for (const GgufDamage& damage : damages) {
    SCOPED_TRACE(damage.name);
    CheckRefused(damage);
  }
}

TEST(SourceSentencePiece, AUnigramModelIsRead) {
  const ScratchDirectory scratch;
  auto image = TinyModel().Hf(StorageType::kBF16);
  nlohmann::json vocab = nlohmann::json::array();
  for (const char* special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    vocab.push_back(nlohmann::json::array({special, 0}));
  }
  vocab.push_back(nlohmann::json::array({"ab", -1.5}));
  vocab.push_back(nlohmann::json::array({"c", -2}));
  image.tokenizer["model"] = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}};
  image.tokenizer["pre_tokenizer"] = nullptr;
  image.tokenizer["decoder"] = nullptr;
  image.Write(scratch.path());
  EXPECT_THAT(Ids(scratch.path(), "abc"), ElementsAre(3, 4));
}

}  // namespace
}  // namespace folio::model
