// Tokens that a tokenizer.json has and the model's embedding does not, and the other way round.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "services/model/tokenizer/tokenizer.h"
#include "services/runtime/logging.h"
#include "tests/model/source_hf_damage.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"
#include "tests/testing/tiny_vocabulary.h"

namespace folio::model {
namespace {

using ::folio::testing::HfImage;
using ::folio::testing::HfTensor;
using ::folio::testing::kTinyVocab;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;

using enum absl::StatusCode;

// The model with rows for so many tokens, those beyond the tokenizer's being zeros.
HfImage WithRows(uint32_t rows) {
  HfImage image = TinyModel().Hf(StorageType::kBF16);
  image.config["vocab_size"] = rows;
  HfTensor& embedding = image.Tensor("model.embed_tokens.weight");
  embedding.bytes.resize(embedding.bytes.size() / kTinyVocab * rows);
  embedding.shape[0] = rows;
  return image;
}

void AddToken(HfImage& image, uint64_t id, const std::string& text, bool special = true) {
  json token = image.tokenizer["added_tokens"].front();
  token.update({{"id", id}, {"content", text}, {"special", special}});
  image.tokenizer["added_tokens"].push_back(token);
}

struct Opened {
  std::unique_ptr<ModelSource> source;
  std::unique_ptr<Tokenizer> tokenizer;
  std::string log;
};

Opened Open(const HfImage& image) {
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  log::Configure(log::Format::kJson, log::Level::kInfo);
  ::testing::internal::CaptureStderr();
  auto source = OpenModel(scratch.path());
  Opened opened;
  opened.log = ::testing::internal::GetCapturedStderr();
  log::Configure(log::Format::kText, log::Level::kInfo);
  EXPECT_TRUE(source.ok()) << source.status();
  if (!source.ok()) return opened;
  opened.source = *std::move(source);
  auto tokenizer = Tokenizer::Create(opened.source->tokenizer(), opened.source->config().vocab);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  if (tokenizer.ok()) opened.tokenizer = *std::move(tokenizer);
  return opened;
}

std::vector<uint32_t> Ids(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<uint32_t> ids;
  const auto tokens = tokenizer.Encode(text).value();
  ids.reserve(tokens.size());
  for (const TokenId token : tokens) ids.push_back(token.value());
  return ids;
}

TEST(HfTokenizer, AddedTokensWithoutARowAreOrdinaryText) {
  HfImage image = WithRows(kTinyVocab);
  const Opened plain = Open(image);
  AddToken(image, 300, "<pad>");
  AddToken(image, 100'000'000'000, "<far>", /*special=*/false);
  const Opened opened = Open(image);
  ASSERT_TRUE(plain.tokenizer != nullptr && opened.tokenizer != nullptr);
  EXPECT_EQ(plain.log, "");
  const std::string text = "the <pad> of <|im_end|><far>";
  EXPECT_EQ(Ids(*opened.tokenizer, text), Ids(*plain.tokenizer, text));
  EXPECT_THAT(Ids(*opened.tokenizer, text), Each(Lt(kTinyVocab)));
  EXPECT_TRUE(opened.tokenizer->IsSpecial(TokenId(::folio::testing::kTinyImEnd)));

  const json line = json::parse(opened.log, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(line.is_object()) << opened.log;
  EXPECT_EQ(line["level"], "warning");
  EXPECT_THAT(line["message"].get<std::string>(), HasSubstr("their texts are ordinary text"));
  EXPECT_THAT(line["file"].get<std::string>(), HasSubstr("tokenizer.json"));
  EXPECT_EQ(line["tokens"], 2);
  EXPECT_EQ(line["first"], "<pad>");
  EXPECT_EQ(line["first_id"], 300);
}

TEST(HfTokenizer, AddedTokensWithARowStay) {
  HfImage image = WithRows(302);
  AddToken(image, 303, "<third>");
  AddToken(image, 300, "<zeroth>");
  AddToken(image, 302, "<second>");
  AddToken(image, 301, "<first>");
  const Opened opened = Open(image);
  ASSERT_NE(opened.tokenizer, nullptr);
  EXPECT_THAT(Ids(*opened.tokenizer, "<first><zeroth>"), ElementsAre(301, 300));
  EXPECT_THAT(Ids(*opened.tokenizer, "<second><third>"), Each(Lt(300u)));
  EXPECT_EQ(opened.tokenizer->TokenBytes(TokenId(301)).value(), "<first>");
}

// Such a row may be sampled, as by other programs. It then adds no text and ends nothing.
TEST(HfTokenizer, RowsWithoutATokenAreHarmless) {
  const Opened opened = Open(WithRows(320));
  ASSERT_NE(opened.tokenizer, nullptr);
  EXPECT_EQ(opened.log, "");
  EXPECT_EQ(opened.source->config().vocab, 320u);
  EXPECT_EQ(opened.source->ReadMatrix(Role::kOutput, 0)->size(), size_t{320} * 64);
  const Tokenizer& tokenizer = *opened.tokenizer;
  const auto grammar = tokenizer.CompileGrammar(GrammarKind::kRegex, "(?s:.*)");
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  const auto state = (*grammar)->Start();
  ASSERT_TRUE(state.ok()) << state.status();
  std::vector<uint32_t> mask(GrammarMaskWords(320));
  ASSERT_TRUE((*state)->Mask(absl::MakeSpan(mask)).ok());
  const auto allows = [&mask](uint32_t id) { return (mask[id / 32] >> (id % 32) & 1) != 0; };
  EXPECT_TRUE(allows(kTinyVocab - 1));
  for (uint32_t id = kTinyVocab; id < 320; ++id) {
    EXPECT_EQ(tokenizer.TokenBytes(TokenId(id)).value(), "");
    EXPECT_FALSE(tokenizer.IsSpecial(TokenId(id)) || tokenizer.IsEos(TokenId(id)));
    EXPECT_FALSE(allows(id));
  }
  EXPECT_EQ(tokenizer.TokenBytes(TokenId(320)).status().code(), kInvalidArgument);
}

std::vector<HfDamage> TokenDamage() {
  const auto named = [](const char* name, const char* field, const char* words) {
    return InImage(
        name,
        [=](HfImage& image) {
          AddToken(image, 300, "<far>");
          image.tokenizer_config[field] = "<far>";
        },
        kInvalidArgument, words);
  };
  return {
      named("EosWithoutARow", "eos_token",
            "tokenizer_config.json: eos_token: \"<far>\" is not in tokenizer.json with an id that"),
      named("BosWithoutARow", "bos_token",
            "tokenizer_config.json: bos_token: \"<far>\" is not in tokenizer.json with an id that"),
      InImage(
          "OrdinaryTokenWithoutARow",
          [](HfImage& image) {
            image.tokenizer["model"]["vocab"]["far"] = 300;
            AddToken(image, 301, "<far>");
          },
          kInvalidArgument,
          "tokenizer.json: a vocabulary with token 300, but the model has 300 tokens"),
      InImage(
          "OrdinaryTokenAddedWithoutARow",
          [](HfImage& image) {
            image.tokenizer["model"]["vocab"]["far"] = 300;
            AddToken(image, 300, "far");
          },
          kInvalidArgument, "a vocabulary with token 300"),
      InImage(
          "AddedAsTwoIds",
          [](HfImage& image) {
            image.config["vocab_size"] = 301;
            AddToken(image, 300, "<far>");
            AddToken(image, 301, "<far>");
          },
          kInvalidArgument, "a vocabulary with token 301, but the model has 301 tokens"),
  };
}

class HfTokens : public ::testing::TestWithParam<HfDamage> {};

TEST_P(HfTokens, AreRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const ::testing::TestParamInfo<HfDamage>& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Damage, HfTokens, ::testing::ValuesIn(TokenDamage()), kName);

}  // namespace
}  // namespace folio::model
