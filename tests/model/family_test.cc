// Model families as data: the registry is sound, a family of fused projections needs nothing but
// its table, and what no transformer computes is refused by name.
#include "services/model/family/family.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/cpu/weights.h"
#include "services/model/source/raw_model.h"
#include "tests/model/executor_harness.h"
#include "tests/testing/quantize.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using ::testing::HasSubstr;

TEST(Families, AreToldApart) {
  std::set<std::string> names;
  std::set<std::string> gguf;
  std::set<std::string> hf;
  for (const Family* family : Families()) {
    EXPECT_TRUE(names.insert(family->name).second) << family->name;
    if (family->gguf_architecture != nullptr) {
      EXPECT_TRUE(gguf.insert(family->gguf_architecture).second) << family->name;
    }
    EXPECT_TRUE(hf.insert(family->hf_architecture).second) << family->name;
    EXPECT_EQ(FindFamily(family->name), family);
  }
  EXPECT_EQ(FindFamily("gpt"), nullptr);
  EXPECT_EQ(KnownArchitectures(Format::kGguf),
            "llama, qwen2, qwen3, phi3, mistral3, gemma3, granite, smollm3");
}

TEST(Families, HaveEachRoleOnceAndTheModelsRolesFirst) {
  for (const Family* family : Families()) {
    std::set<Role> roles;
    bool in_layer = false;
    for (const TensorSpec& spec : family->tensors) {
      EXPECT_TRUE(roles.insert(spec.role).second) << family->name << ": " << spec.hf;
      EXPECT_TRUE(!in_layer || InfoOf(spec.role).in_layer) << family->name << ": " << spec.hf;
      in_layer = InfoOf(spec.role).in_layer;
    }
    for (const Role role : {Role::kEmbedding, Role::kOutput, Role::kFinalNorm, Role::kAttentionNorm,
                            Role::kFfnNorm, Role::kQuery, Role::kKey, Role::kValue,
                            Role::kAttentionOut, Role::kGate, Role::kUp, Role::kDown}) {
      EXPECT_TRUE(roles.contains(role)) << family->name << " lacks " << InfoOf(role).name;
    }
    for (const Role role : kQkvBiasRoles) {
      EXPECT_EQ(roles.contains(role), family->features.has(Feature::kQkvBias)) << family->name;
    }
    for (const Role role : {Role::kQueryNorm, Role::kKeyNorm}) {
      EXPECT_EQ(roles.contains(role), family->features.has(Feature::kHeadNorms)) << family->name;
    }
    for (const Role role : {Role::kPostAttentionNorm, Role::kPostFfnNorm}) {
      EXPECT_EQ(roles.contains(role), family->features.has(Feature::kPostNorms)) << family->name;
    }
  }
}

TEST(Families, CountParameters) {
  for (const char* name :
       {"llama", "mistral", "qwen2", "qwen3", "ministral3", "gemma3", "granite", "smollm3"}) {
    for (const bool tied : {true, false}) {
      const TinyModel model({.tied = tied, .family = name});
      uint64_t count = 0;
      for (const auto& tensor : model.tensors()) count += tensor.values.size();
      const ScratchDirectory scratch;
      model.WriteHf(scratch.path());
      const auto source = OpenModel(scratch.path());
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_EQ(CountParameters((*source)->config()), count) << name;
    }
  }
}

TEST(CheckFeatures, NamesWhatIsNotComputed) {
  ModelConfig config = testing::TinyConfig();
  config.architecture = "gemma3";
  config.features = {Feature::kQkvBias, Feature::kHeadNorms};
  EXPECT_TRUE(CheckFeatures(config, {Feature::kHeadNorms, Feature::kQkvBias}, "it").ok());
  EXPECT_EQ(CheckFeatures(config, {Feature::kQkvBias}, "the CPU transformer"),
            absl::UnimplementedError("model tiny of the family gemma3 has RMS norms of each head's "
                                     "query and key, which the CPU transformer does not compute"));
}

TEST(CheckFeatures, IsAskedBeforeWeightsAreLoaded) {
  ModelConfig config = testing::TinyConfig();
  config.features = {Feature::kSoftCaps};
  const testing::RandomModel model(config, 1);
  const auto ops = testing::OpsNamed("plain");
  kernels::ThreadPool threads(1);
  const auto weights = LoadWeights(model, *ops, threads);
  EXPECT_EQ(weights.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(weights.status().message(), HasSubstr("the CPU transformer does not compute"));
}

// Phi-3 has the rows of q, k and v in one tensor, and those of gate and up in another.
const Family& Fused() { return *FindFamily("phi3"); }

// The tiny model as a reader of GGUF files with fused tensors would have found it. `bytes` keeps
// what the tensors point to.
RawModel FusedModel(const TinyModel& model, StorageType type, std::vector<std::string>& bytes) {
  RawModel raw;
  raw.origin = "fused";
  raw.family = &Fused();
  raw.format = Format::kGguf;
  ModelConfig& config = raw.config;
  config = testing::TinyConfig();
  config.architecture = Fused().name;
  config.hidden = model.options().hidden;
  config.ffn = model.options().ffn;
  config.heads = model.options().heads;
  config.kv_heads = model.options().kv_heads;
  config.head_dim = model.options().head_dim;
  config.vocab = static_cast<uint32_t>(model.Find(Role::kEmbedding, 0).shape[0]);
  config.tied_embeddings = model.options().tied;
  const auto add = [&](const std::string& name, const std::vector<Role>& roles, uint32_t layer) {
    std::vector<float> values;
    std::vector<uint64_t> shape;
    for (const Role role : roles) {
      const auto& tensor = model.Find(role, layer);
      values.insert(values.end(), tensor.values.begin(), tensor.values.end());
      if (shape.empty()) {
        shape = tensor.shape;
      } else {
        shape[0] += tensor.shape[0];
      }
    }
    const StorageType stored = shape.size() == 1 ? StorageType::kF32 : type;
    bytes.push_back(::folio::testing::Encode(stored, values));
    raw.tensors.push_back({"fused", name, stored, "", shape, {}});
  };
  for (const TensorSpec& spec : Fused().tensors) {
    if (spec.role == Role::kOutput || spec.role == Role::kKey || spec.role == Role::kValue ||
        spec.role == Role::kUp) {
      continue;
    }
    std::vector<Role> roles = {spec.role};
    if (spec.role == Role::kQuery) roles = {std::begin(kQkvRoles), std::end(kQkvRoles)};
    if (spec.role == Role::kGate) roles.push_back(Role::kUp);
    const uint32_t layers = InfoOf(spec.role).in_layer ? config.num_layers : 1;
    for (uint32_t layer = 0; layer < layers; ++layer) {
      add(TensorName(spec, Format::kGguf, layer), roles, layer);
    }
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    raw.tensors[i].bytes = {reinterpret_cast<const std::byte*>(bytes[i].data()), bytes[i].size()};
  }
  return raw;
}

TEST(FusedTensors, AreReadByRole) {
  const TinyModel model;
  for (const StorageType type : {StorageType::kF32, StorageType::kQ8_0}) {
    std::vector<std::string> bytes;
    const auto source = AssembleModel(FusedModel(model, type, bytes));
    ASSERT_TRUE(source.ok()) << source.status();
    for (const Role role : {Role::kQuery, Role::kKey, Role::kValue, Role::kGate, Role::kUp}) {
      const auto read = (*source)->ReadMatrix(role, 1);
      ASSERT_TRUE(read.ok()) << read.status();
      const std::vector<float>& want = model.Find(role, 1).values;
      ASSERT_EQ(read->size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR((*read)[i].ToFloat(), want[i], type == StorageType::kF32 ? 0 : 0.003)
            << InfoOf(role).name << " at " << i;
      }
    }
  }
}

TEST(FusedTensors, HaveTheRowsOfAllTheirRoles) {
  const TinyModel model;
  std::vector<std::string> bytes;
  RawModel raw = FusedModel(model, StorageType::kF32, bytes);
  for (StoredTensor& tensor : raw.tensors) {
    if (tensor.name != "blk.1.attn_qkv.weight") continue;
    tensor.shape[0] -= 1;
    tensor.bytes.remove_suffix(64 * sizeof(float));
  }
  EXPECT_EQ(AssembleModel(std::move(raw)).status(),
            absl::InvalidArgumentError(
                "fused: tensor blk.1.attn_qkv.weight: shape [127, 64], expected [128, 64]"));
}

}  // namespace
}  // namespace folio::model
