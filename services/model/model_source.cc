#include "services/model/model_source.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <bit>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/common/check.h"
#include "services/common/logging.h"
#include "services/model/model_parts.h"

namespace folio::model {
namespace {

constexpr Role kModelRoles[] = {Role::kEmbedding, Role::kOutput, Role::kFinalNorm};
constexpr Role kLayerRoles[] = {Role::kAttentionNorm, Role::kFfnNorm, Role::kQuery,
                                Role::kKey,           Role::kValue,   Role::kAttentionOut,
                                Role::kGate,          Role::kUp,      Role::kDown};
constexpr size_t kRoles = 12;

bool IsModelRole(Role role) {
  return role == Role::kEmbedding || role == Role::kOutput || role == Role::kFinalNorm;
}

std::vector<uint64_t> ExpectedShape(Role role, const ModelConfig& config) {
  const uint64_t hidden = config.hidden;
  const uint64_t queries = uint64_t{config.heads} * config.head_dim;
  const uint64_t keys = uint64_t{config.kv_heads} * config.head_dim;
  switch (role) {
    case Role::kEmbedding:
    case Role::kOutput:
      return {config.vocab, hidden};
    case Role::kFinalNorm:
    case Role::kAttentionNorm:
    case Role::kFfnNorm:
      return {hidden};
    case Role::kQuery:
      return {queries, hidden};
    case Role::kKey:
    case Role::kValue:
      return {keys, hidden};
    case Role::kAttentionOut:
      return {hidden, queries};
    case Role::kGate:
    case Role::kUp:
      return {config.ffn, hidden};
    case Role::kDown:
      return {hidden, config.ffn};
  }
  return {};
}

// Every field that changes what the model computes; numbers by their bits.
std::string ConfigText(const ModelConfig& config) {
  const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  std::string text =
      absl::StrCat(config.architecture, "/", config.num_layers, "/", config.hidden, "/", config.ffn,
                   "/", config.heads, "/", config.kv_heads, "/", config.head_dim, "/", config.vocab,
                   "/", config.context, "/", bits(config.rope_theta), "/", bits(config.norm_eps),
                   "/", config.tied_embeddings);
  for (const float divisor : config.rope_divisors) absl::StrAppend(&text, "/", bits(divisor));
  if (config.rope_scaling) {
    const RopeScaling& scaling = *config.rope_scaling;
    absl::StrAppend(&text, "/", bits(scaling.factor), "/", bits(scaling.low_freq_factor), "/",
                    bits(scaling.high_freq_factor), "/", scaling.original_context);
  }
  return text;
}

class StoredModel final : public ModelSource {
 public:
  // `tensors` in the order of the roles: the model's, then each layer's.
  StoredModel(ModelParts parts, std::vector<StoredTensor> tensors)
      : parts_(std::move(parts)), tensors_(std::move(tensors)) {}

  const ModelConfig& config() const override { return parts_.config; }
  const TokenizerSpec& tokenizer() const override { return parts_.tokenizer; }

  absl::StatusOr<std::vector<kernels::bf16>> ReadMatrix(Role role, uint32_t layer) const override {
    const StoredTensor& tensor = Find(role, layer);
    const bool rotated = role == Role::kQuery || role == Role::kKey;
    return ReadBf16(tensor, rotated && parts_.interleaved_rope ? parts_.config.head_dim : 0);
  }

  absl::StatusOr<std::vector<float>> ReadVector(Role role, uint32_t layer) const override {
    return ReadFloats(Find(role, layer));
  }

  std::string fingerprint() const override {
    XXH3_state_t* state = XXH3_createState();
    FOLIO_CHECK(state != nullptr);
    XXH3_128bits_reset(state);
    const auto add = [state](const void* data, size_t size) {
      if (size != 0) XXH3_128bits_update(state, data, size);
    };
    const std::string text =
        absl::StrCat("folio-model-1/", parts_.interleaved_rope, "/", ConfigText(parts_.config));
    add(text.data(), text.size());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (i == static_cast<size_t>(Role::kOutput) && parts_.config.tied_embeddings) continue;
      const StoredTensor& tensor = tensors_[i];
      const std::string head = absl::StrCat("/", tensor.type_name, ShapeText(tensor.shape));
      add(head.data(), head.size());
      add(tensor.bytes.data(), tensor.bytes.size());
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
  }

 private:
  const StoredTensor& Find(Role role, uint32_t layer) const {
    if (IsModelRole(role)) return tensors_[static_cast<size_t>(role)];
    FOLIO_CHECK(layer < parts_.config.num_layers);
    return tensors_[std::size(kModelRoles) + layer * std::size(kLayerRoles) +
                    static_cast<size_t>(role) - std::size(kModelRoles)];
  }

  ModelParts parts_;
  std::vector<StoredTensor> tensors_;
};

static_assert(std::size(kModelRoles) + std::size(kLayerRoles) == kRoles);
static_assert(static_cast<size_t>(Role::kDown) + 1 == kRoles,
              "Find() indexes by the order of the enumerators");

// The role's tensor, checked for type and shape.
absl::StatusOr<StoredTensor> TakeTensor(
    const ModelParts& parts, const absl::flat_hash_map<std::string, const StoredTensor*>& by_name,
    Role role, const std::string& name) {
  const auto found = by_name.find(name);
  if (found == by_name.end()) {
    return absl::InvalidArgumentError(absl::StrCat(parts.origin, ": tensor ", name, ": missing"));
  }
  const StoredTensor& tensor = *found->second;
  const std::string where = absl::StrCat(tensor.file, ": tensor ", name, ": ");
  if (tensor.type == StorageType::kOther) {
    return absl::UnimplementedError(
        absl::StrCat(where, "type ", tensor.type_name, " is not supported"));
  }
  const std::vector<uint64_t> shape = ExpectedShape(role, parts.config);
  if (tensor.shape != shape) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, "shape ", ShapeText(tensor.shape), ", expected ", ShapeText(shape)));
  }
  return tensor;
}

// A tensor of a layer, or a bias: leaving it out would change the result.
bool ChangesResult(const ModelParts& parts, const std::string& name) {
  for (const std::string& ending : parts.names.harmless) {
    if (absl::EndsWith(name, ending)) return false;
  }
  return absl::StartsWith(name, parts.names.layer_prefix) || absl::EndsWith(name, ".bias");
}

absl::Status CheckSpecialIds(const ModelParts& parts) {
  const auto outside = [&parts](absl::string_view what, uint32_t id) {
    return absl::InvalidArgumentError(absl::StrCat(parts.origin, ": ", what, ": token ", id,
                                                   " is outside the vocabulary of ",
                                                   parts.config.vocab, " tokens"));
  };
  for (const uint32_t id : parts.tokenizer.eos_ids) {
    if (id >= parts.config.vocab) return outside("end of sequence", id);
  }
  if (parts.tokenizer.add_bos && parts.tokenizer.bos_id >= parts.config.vocab) {
    return outside("beginning of sequence", parts.tokenizer.bos_id);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelSource>> AssembleModel(ModelParts parts) {
  if (absl::Status status = CheckConfig(parts.origin, parts.config); !status.ok()) return status;
  if (absl::Status status = CheckSpecialIds(parts); !status.ok()) return status;
  absl::flat_hash_map<std::string, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : parts.tensors) {
    if (!by_name.emplace(tensor.name, &tensor).second) {
      return absl::DataLossError(
          absl::StrCat(tensor.file, ": tensor ", tensor.name, ": appears twice"));
    }
  }
  std::vector<StoredTensor> tensors;
  absl::flat_hash_set<std::string> used;
  const auto take = [&](Role role, uint32_t layer) {
    if (role == Role::kOutput && parts.config.tied_embeddings) role = Role::kEmbedding;
    std::string name = parts.names.name(role, layer);
    absl::StatusOr<StoredTensor> tensor = TakeTensor(parts, by_name, role, name);
    if (!tensor.ok()) return tensor.status();
    tensors.push_back(*std::move(tensor));
    used.insert(std::move(name));
    return absl::OkStatus();
  };
  for (const Role role : kModelRoles) {
    if (absl::Status status = take(role, 0); !status.ok()) return status;
  }
  for (uint32_t layer = 0; layer < parts.config.num_layers; ++layer) {
    for (const Role role : kLayerRoles) {
      if (absl::Status status = take(role, layer); !status.ok()) return status;
    }
  }
  for (const StoredTensor& tensor : parts.tensors) {
    if (used.contains(tensor.name)) continue;
    if (ChangesResult(parts, tensor.name)) {
      return absl::UnimplementedError(absl::StrCat(
          tensor.file, ": tensor ", tensor.name, ": not part of a ", parts.config.num_layers,
          "-layer Llama model without biases; leaving it out would change the result"));
    }
    log::Info("tensor is not needed, ignored", {{"file", tensor.file}, {"tensor", tensor.name}});
  }
  return std::make_unique<StoredModel>(std::move(parts), std::move(tensors));
}

absl::StatusOr<std::unique_ptr<ModelSource>> OpenModel(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const int error = errno;
    return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot open the model"));
  }
  absl::StatusOr<ModelParts> parts =
      S_ISDIR(info.st_mode) ? ReadHfModel(path) : ReadGgufModel(path);
  if (!parts.ok()) return parts.status();
  return AssembleModel(*std::move(parts));
}

}  // namespace folio::model
