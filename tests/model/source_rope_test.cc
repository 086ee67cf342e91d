// The places and types that the scaling of the rotary embedding has in both formats.
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "tests/model/source_gguf_damage.h"
#include "tests/model/source_hf_damage.h"
#include "tests/testing/gguf_image.h"
#include "tests/testing/hf_image.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufImage;
using ::folio::testing::HfImage;
using ::folio::testing::RopeDivisors;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using enum absl::StatusCode;

const RopeScaling kScaling = {
    .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 256};

json Llama3(const char* type_key = "rope_type") {
  return {{type_key, "llama3"},
          {"factor", 8.0},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0},
          {"original_max_position_embeddings", 256}};
}

json With(json object, const char* key, const json& value) {
  object[key] = value;
  return object;
}

// The configuration that is read when `fields` stand in place of those of the rotary embedding.
ModelConfig ReadHf(const json& fields) {
  HfImage image = TinyModel().Hf(StorageType::kBF16);
  image.config.erase("rope_theta");
  image.config.erase("rope_scaling");
  image.config.update(fields);
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  const auto source = OpenModel(scratch.path());
  EXPECT_TRUE(source.ok()) << source.status() << fields;
  return source.ok() ? (*source)->config() : ModelConfig();
}

ModelConfig ReadGguf(const std::function<void(GgufImage&)>& edit,
                     const ::folio::testing::TinyOptions& options = {}) {
  GgufImage image = TinyModel(options).Gguf(StorageType::kF32);
  edit(image);
  const auto source = OpenGguf(image);
  EXPECT_TRUE(source.ok()) << source.status();
  return source.ok() ? (*source)->config() : ModelConfig();
}

TEST(HfRope, NothingIsScaledByDefault) {
  const json theta = {{"rope_theta", 500000.0}};
  const json newer = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  const json cases[] = {
      theta,
      {{"rope_parameters", theta}},
      {{"rope_parameters", newer}},
      {{"rope_theta", 500000.0}, {"rope_parameters", newer}},
      {{"rope_theta", 500000.0}, {"rope_scaling", {{"type", "default"}}}},
      {{"rope_theta", 500000.0},
       {"rope_scaling", {{"type", "default"}, {"rope_type", "default"}}},
       {"rope_parameters", newer}},
      {{"rope_theta", nullptr}, {"rope_scaling", nullptr}, {"rope_parameters", newer}},
      {{"rope_parameters", {{"rope_theta", 500000.0}, {"partial_rotary_factor", 1.0}}}},
      {{"rope_theta", 500000.0}, {"rope_scaling", {{"type", "linear"}, {"factor", 1.0}}}},
  };
  for (const json& fields : cases) {
    const ModelConfig config = ReadHf(fields);
    EXPECT_EQ(config.rope_theta, 500000.0f) << fields;
    EXPECT_EQ(config.rope_scaling, std::nullopt) << fields;
    EXPECT_THAT(config.rope_divisors, IsEmpty()) << fields;
  }
  EXPECT_EQ(ReadHf(json::object()).rope_theta, 10000.0f);
}

TEST(HfRope, LlamaThreeInEachPlace) {
  const json newer = With(Llama3(), "rope_theta", 500000.0);
  const json cases[] = {
      {{"rope_theta", 500000.0}, {"rope_scaling", Llama3()}},
      {{"rope_theta", 500000.0}, {"rope_scaling", Llama3("type")}},
      {{"rope_theta", 500000.0}, {"rope_scaling", With(Llama3(), "type", "llama3")}},
      {{"rope_parameters", newer}},
      {{"rope_theta", 500000}, {"rope_scaling", Llama3("type")}, {"rope_parameters", newer}},
  };
  for (const json& fields : cases) {
    const ModelConfig config = ReadHf(fields);
    EXPECT_EQ(config.rope_theta, 500000.0f) << fields;
    EXPECT_EQ(config.rope_scaling, kScaling) << fields;
    EXPECT_THAT(config.rope_divisors, IsEmpty()) << fields;
  }
}

TEST(HfRope, LinearScalingDividesAllFrequencies) {
  const json linear = {{"rope_type", "linear"}, {"factor", 2.5}};
  const json cases[] = {
      {{"rope_theta", 20000.0}, {"rope_scaling", linear}},
      {{"rope_theta", 20000.0}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.5}}}},
      {{"rope_parameters", With(linear, "rope_theta", 20000.0)}},
      {{"rope_theta", 20000.0}, {"rope_scaling", linear}, {"rope_parameters", linear}},
  };
  for (const json& fields : cases) {
    const ModelConfig config = ReadHf(fields);
    EXPECT_EQ(config.rope_theta, 20000.0f) << fields;
    EXPECT_EQ(config.rope_scaling, std::nullopt) << fields;
    EXPECT_THAT(config.rope_divisors, AllOf(SizeIs(8), Each(2.5f))) << fields;
  }
}

TEST(GgufRope, LinearScalingDividesAllFrequencies) {
  const std::function<void(GgufImage&)> edits[] = {
      [](GgufImage& i) {
        i.SetString("llama.rope.scaling.type", "linear");
        i.SetFloat("llama.rope.scaling.factor", 2.5f);
      },
      [](GgufImage& i) { i.SetFloat("llama.rope.scaling.factor", 2.5f); },
      [](GgufImage& i) { i.SetFloat("llama.rope.scale_linear", 2.5f); },
      [](GgufImage& i) {
        i.SetFloat("llama.rope.scaling.factor", 2.5f);
        i.SetFloat("llama.rope.scale_linear", 2.5f);
      },
      [](GgufImage& i) {
        i.SetFloat("llama.rope.scaling.factor", 0.0f);
        i.SetFloat("llama.rope.scale_linear", 2.5f);
      },
  };
  for (const auto& edit : edits) {
    EXPECT_THAT(ReadGguf(edit).rope_divisors, AllOf(SizeIs(8), Each(2.5f)));
  }
}

TEST(GgufRope, NothingIsScaledByDefault) {
  const std::function<void(GgufImage&)> edits[] = {
      [](GgufImage& i) { i.SetString("llama.rope.scaling.type", "linear"); },
      [](GgufImage& i) { i.SetFloat("llama.rope.scaling.factor", 1.0f); },
      [](GgufImage& i) { i.SetFloat("llama.rope.scale_linear", 0.0f); },
      [](GgufImage& i) {
        i.SetString("llama.rope.scaling.type", "none");
        i.SetFloat("llama.rope.scaling.factor", 2.5f);
      },
  };
  for (const auto& edit : edits) EXPECT_THAT(ReadGguf(edit).rope_divisors, IsEmpty());
}

// llama.cpp divides by both.
TEST(GgufRope, LinearScalingComesOnTopOfDivisors) {
  const ModelConfig config =
      ReadGguf([](GgufImage& i) { i.SetFloat("llama.rope.scaling.factor", 2.0f); },
               {.rope_scaling = kScaling});
  std::vector<float> expected = RopeDivisors(kScaling, 10000, 16);
  for (float& divisor : expected) divisor *= 2;
  EXPECT_EQ(config.rope_divisors, expected);
}

// A directory's rotary fields are these in place of its own.
HfDamage Fields(const char* name, const json& fields, absl::StatusCode code, const char* words) {
  return InImage(
      name, [=](HfImage& i) { i.config.update(fields); }, code, words);
}

std::vector<HfDamage> HfDamages() {
  const auto scaling = [](json object) { return json{{"rope_scaling", std::move(object)}}; };
  const json newer = With(Llama3(), "rope_theta", 10000.0);
  std::vector<HfDamage> damages = {
      Fields("ThetaContradicts", {{"rope_parameters", With(newer, "rope_theta", 500000.0)}},
             kInvalidArgument, "config.json: rope_parameters.rope_theta contradicts rope_theta"),
      Fields("ScalingContradicts",
             {{"rope_scaling", With(Llama3(), "factor", 4.0)}, {"rope_parameters", newer}},
             kInvalidArgument, "config.json: rope_parameters contradicts rope_scaling"),
      Fields("DefaultContradicts",
             {{"rope_scaling", Llama3()}, {"rope_parameters", {{"rope_type", "default"}}}},
             kInvalidArgument, "config.json: rope_parameters contradicts rope_scaling"),
      Fields("TypeContradicts", scaling(With(Llama3(), "type", "linear")), kInvalidArgument,
             "rope_scaling: rope_type contradicts type; remove the wrong one"),
      Fields("TypeAsNumber", scaling({{"rope_type", 3}}), kUnimplemented,
             "rope_scaling: rope_type: 3 is not supported"),
      Fields("LinearWithoutFactor", scaling({{"type", "linear"}}), kInvalidArgument,
             "rope_scaling: factor: missing"),
      Fields("LinearShrinks", scaling({{"type", "linear"}, {"factor", 0.5}}), kInvalidArgument,
             "config.json: rope_scaling: factor: 0.5 is out of range [1, 1e6]"),
      Fields("LinearAsText", {{"rope_parameters", {{"rope_type", "linear"}, {"factor", "2"}}}},
             kInvalidArgument, "rope_parameters: factor: not a finite number"),
      Fields("InnerThetaAsText", {{"rope_parameters", With(newer, "rope_theta", "10000")}},
             kInvalidArgument, "rope_parameters: rope_theta: not a finite number"),
      Fields("InnerPartialRotation",
             {{"rope_parameters", With(newer, "partial_rotary_factor", 0.0)}}, kInvalidArgument,
             "rope_parameters: partial_rotary_factor: 0 is out of range (0, 1]"),
      Fields("ParametersOfEachType",
             {{"rope_parameters", {{"full_attention", newer}, {"sliding_attention", newer}}}},
             kInvalidArgument, "rope_parameters: rope_type: missing"),
  };
  for (const char* type : {"dynamic", "ntk"}) {
    damages.push_back(Fields(type, {{"rope_parameters", {{"rope_type", type}, {"factor", 4.0}}}},
                             kUnimplemented,
                             "is not supported (default, linear, llama3, yarn, longrope)"));
  }
  return damages;
}

std::vector<GgufDamage> GgufDamages() {
  const auto floats = [](float factor, float older) -> GgufEdit {
    return [=](GgufImage& image) {
      image.SetFloat("llama.rope.scaling.factor", factor);
      image.SetFloat("llama.rope.scale_linear", older);
    };
  };
  return {
      {"FactorContradicts", floats(4, 2), kInvalidArgument,
       "llama.rope.scale_linear: 2 contradicts llama.rope.scaling.factor 4"},
      {"FactorShrinks", floats(0.5, 0), kInvalidArgument,
       "llama.rope.scaling.factor: 0.5 is out of range [1, 1e6]"},
      {"FactorAsText", String("llama.rope.scaling.factor", "2"), kInvalidArgument,
       "llama.rope.scaling.factor: not a finite number"},
      {"LongRope", String("llama.rope.scaling.type", "longrope"), kUnimplemented,
       "llama.rope.scaling.type: longrope is not supported (none, linear, yarn,"},
  };
}

class HfRopeDamage : public ::testing::TestWithParam<HfDamage> {};
TEST_P(HfRopeDamage, IsRefusedByName) { CheckRefused(GetParam()); }

class GgufRopeDamage : public ::testing::TestWithParam<GgufDamage> {};
TEST_P(GgufRopeDamage, IsRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const auto& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Rope, HfRopeDamage, ::testing::ValuesIn(HfDamages()), kName);
INSTANTIATE_TEST_SUITE_P(Rope, GgufRopeDamage, ::testing::ValuesIn(GgufDamages()), kName);

}  // namespace
}  // namespace folio::model
