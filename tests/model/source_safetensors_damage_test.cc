// Weights of a Hugging Face directory, damaged or of a kind that is not supported.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/source_hf_damage.h"

namespace folio::model {
namespace {

using ::folio::testing::HfImage;
using ::folio::testing::HfTensor;
using ::folio::testing::Safetensors;
using ::folio::testing::SafetensorsHeader;
using ::folio::testing::TinyModel;
using nlohmann::json;

using enum absl::StatusCode;

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kQuery = "model.layers.0.self_attn.q_proj.weight";

// A field of the query tensor's entry in the weights' header.
HfDamage Entry(const char* name, const char* key, json value, absl::StatusCode code,
               const char* words) {
  return {name, nullptr,
          [=](Files& files) {
            const std::vector<HfTensor> tensors = TinyModel().Hf(StorageType::kBF16).tensors;
            json header = SafetensorsHeader(tensors);
            std::string data;
            for (const HfTensor& tensor : tensors) data += tensor.bytes;
            header[kQuery][key] = value;
            files[kWeights] = Safetensors(header.dump(), data);
          },
          code, words};
}

std::vector<HfDamage> WeightDamage() {
  const std::string nan("\xc0\x7f", 2);
  return {
      InFiles(
          "NoWeights", [](Files& f) { f.erase(kWeights); }, kNotFound,
          "neither model.safetensors nor model.safetensors.index.json"),
      InFiles(
          "EmptyWeights", [](Files& f) { f[kWeights] = std::string(""); }, kDataLoss, "truncated"),
      InFiles(
          "AbsurdHeader", [](Files& f) { f[kWeights].replace(0, 8, 8, '\xff'); }, kDataLoss,
          "a header of 18446744073709551615 bytes does not fit"),
      InFiles(
          "HeaderNoJson", [](Files& f) { f[kWeights][8] = 'x'; }, kDataLoss, "header: bad JSON"),
      InFiles(
          "DeepHeader", [](Files& f) { f[kWeights] = Safetensors(std::string(1 << 20, '['), ""); },
          kInvalidArgument, "header: JSON nested deeper than 64 levels"),
      InFiles(
          "DeepEntry",
          [](Files& f) {
            f[kWeights] = Safetensors("{\"a\": {\"shape\": " + Nested(200'000) + "}}", "");
          },
          kInvalidArgument, "header: JSON nested deeper than 64 levels"),
      InFiles(
          "OneByteMissing", [](Files& f) { f[kWeights].pop_back(); }, kDataLoss, "truncated?"),
      InFiles(
          "OneByteMore", [](Files& f) { f[kWeights].push_back('\0'); }, kDataLoss,
          "1 bytes after the last tensor"),
      InFiles(
          "TensorTwice",
          [](Files& f) {
            f[kWeights] = Safetensors(R"({"a": {"dtype": "F32"}, "a": {"dtype": "F32"}})", "");
          },
          kDataLoss, "header: a: appears twice"),
      Entry("UnknownType", "dtype", "F4", kUnimplemented,
            "self_attn.q_proj.weight: unknown type F4"),
      Entry("TypeAsNumber", "dtype", 4, kDataLoss, "self_attn.q_proj.weight: no dtype"),
      Entry("TypeNotSupported", "dtype", "I16", kUnimplemented,
            "self_attn.q_proj.weight: type I16 is not supported"),
      Entry("TypeOfOtherSize", "dtype", "F32", kDataLoss, "do not hold the 16384 bytes"),
      Entry("ShapeOverflows", "shape", {4294967296u, 4294967296u, 2}, kDataLoss,
            "shape [4294967296, 4294967296, 2] is too large"),
      Entry("NegativeShape", "shape", {-64, -64}, kDataLoss, "q_proj.weight: no shape"),
      Entry("NineDimensions", "shape", {1, 1, 1, 1, 1, 1, 1, 64, 64}, kDataLoss,
            "q_proj.weight: no shape of at most 8"),
      Entry("OtherShape", "shape", {32, 128}, kInvalidArgument,
            "q_proj.weight: shape [32, 128], expected [64, 64]"),
      Entry("OffsetsReversed", "data_offsets", {8192, 0}, kDataLoss,
            "data_offsets [8192, 0] do not hold"),
      Entry("OneOffset", "data_offsets", {0}, kDataLoss, "no data_offsets of two"),
      Entry("Overlap", "data_offsets", {0, 8192}, kDataLoss, "overlaps the tensor before it"),
      Entry("BeyondTheFile", "data_offsets", {uint64_t{1} << 40, (uint64_t{1} << 40) + 8192},
            kDataLoss, "leaves a gap"),
      InImage(
          "MissingTensor", [](HfImage& i) { i.EraseTensor(kQuery); }, kInvalidArgument,
          "tensor model.layers.0.self_attn.q_proj.weight: missing"),
      InImage(
          "Bias",
          [](HfImage& i) {
            i.tensors.push_back(
                {"model.layers.0.self_attn.q_proj.bias", "BF16", {64}, std::string(128, '\0')});
          },
          kUnimplemented, "q_proj.bias: not part of a 2-layer Llama"),
      InImage(
          "NanInValue", [nan](HfImage& i) { i.Tensor(kQuery).bytes.replace(130, 2, nan); },
          kDataLoss, "q_proj.weight: a value is NaN, infinite or out of range at row 1, column 1"),
  };
}

HfDamage Shards(const char* name, std::function<void(json&, Files&)> edit, absl::StatusCode code,
                const char* words) {
  return {name, [](HfImage& i) { i.shards = 2; },
          [edit = std::move(edit)](Files& files) {
            json index = json::parse(files["model.safetensors.index.json"]);
            edit(index, files);
            files["model.safetensors.index.json"] = index.dump();
          },
          code, words};
}

std::vector<HfDamage> ShardDamage() {
  return {
      Shards(
          "NoMap", [](json& index, Files&) { index.erase("weight_map"); }, kInvalidArgument,
          "weight_map: missing"),
      Shards(
          "NoShard", [](json&, Files& f) { f.erase("model-00002-of-00002.safetensors"); },
          kNotFound,
          "model.safetensors.index.json: weight_map: model.layers.0.mlp.up_proj.weight: "
          "model-00002-of-00002.safetensors is not in the directory"),
      Shards(
          "ShardCut", [](json&, Files& f) { f["model-00002-of-00002.safetensors"].pop_back(); },
          kDataLoss, "model-00002-of-00002.safetensors: tensor "),
      Shards(
          "ElsewhereByPath",
          [](json& index, Files&) { index["weight_map"][kQuery] = "../model.safetensors"; },
          kInvalidArgument, "q_proj.weight: not the name of a file"),
      Shards(
          "ElsewhereByNumber", [](json& index, Files&) { index["weight_map"][kQuery] = 1; },
          kInvalidArgument, "q_proj.weight: not the name of a file"),
      Shards(
          "TensorNotInItsShard",
          [](json& index, Files&) {
            std::string shard = index["weight_map"][kQuery];
            index["weight_map"][kQuery] = shard[10] == '1' ? "model-00002-of-00002.safetensors"
                                                           : "model-00001-of-00002.safetensors";
          },
          kInvalidArgument, "q_proj.weight: missing in model-0000"),
      Shards(
          "TensorInTheOtherShard",
          [](json& index, Files&) {
            index["weight_map"]["model.embed_tokens.weight"] = "model-00002-of-00002.safetensors";
          },
          kInvalidArgument,
          "weight_map: model.embed_tokens.weight: missing in model-00002-of-00002.safetensors, it "
          "is in model-00001-of-00002.safetensors"),
      Shards(
          "TensorInTwoShards",
          [](json&, Files& f) {
            f["model-00002-of-00002.safetensors"] = f["model-00001-of-00002.safetensors"];
          },
          kDataLoss, "is in another shard too, model-0000"),
      Shards(
          "TensorNowhere",
          [](json& index, Files&) {
            index["weight_map"]["ghost"] = "model-00001-of-00002.safetensors";
          },
          kInvalidArgument, "ghost: missing in model-00001-of-00002.safetensors"),
  };
}

class Safetensor : public ::testing::TestWithParam<HfDamage> {};

TEST_P(Safetensor, IsRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const ::testing::TestParamInfo<HfDamage>& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Single, Safetensor, ::testing::ValuesIn(WeightDamage()), kName);
INSTANTIATE_TEST_SUITE_P(Shards, Safetensor, ::testing::ValuesIn(ShardDamage()), kName);

}  // namespace
}  // namespace folio::model
