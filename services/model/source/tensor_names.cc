#include "services/model/source/tensor_names.h"

#include <cstddef>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/base/check.h"
#include "services/model/source/packed_tensors.h"

namespace folio::model {
namespace {

// Families write these words in front of the names of their tensors.
constexpr absl::string_view kFamilyPrefix = "model.";

// The first row is how families name their tensors.
constexpr HfPrefixes kPrefixes[] = {
    {kFamilyPrefix, ""},
    {"", ""},
    {"language_model.model.", "language_model."},
    {"model.language_model.", ""},
};

// Networks beside the layers, for images and sounds: a part of the name between two points.
constexpr absl::string_view kOtherNetworks[] = {"vision_tower", "vision_model",
                                                "visual",       "audio_tower",
                                                "mm_projector", "multi_modal_projector"};

// Parts beside the layers that change what the model computes, as part of a name between two
// points.
constexpr absl::string_view kOtherParts[] = {"token_embd_norm",
                                             "token_types",
                                             "position_embd",
                                             "per_layer_token_embd",
                                             "embed_positions",
                                             "embed_layernorm",
                                             "embedding_norm",
                                             "embed_tokens_per_layer",
                                             "wpe",
                                             "mtp",
                                             "cls",
                                             "altup_projections"};

// GGUF files of other networks, and of pictures and sounds, begin so.
constexpr absl::string_view kOtherGgufNetworks[] = {"v", "a", "mm", "enc", "dec"};

std::string LayersOf(const HfPrefixes& prefixes) { return absl::StrCat(prefixes.model, "layers."); }

const TensorSpec& SpecOf(const RawModel& parts, Role role) {
  const auto found = absl::c_find_if(parts.family->tensors,
                                     [role](const TensorSpec& spec) { return spec.role == role; });
  FOLIO_CHECK(found != parts.family->tensors.end());
  return *found;
}

}  // namespace

HfPrefixes FindHfPrefixes(const std::vector<StoredTensor>& tensors) {
  HfPrefixes most = kPrefixes[0];
  ptrdiff_t most_tensors = 0;
  for (const HfPrefixes& prefixes : kPrefixes) {
    const std::string layers = LayersOf(prefixes);
    const ptrdiff_t found = absl::c_count_if(tensors, [&layers](const StoredTensor& each) {
      return absl::StartsWith(each.name, layers);
    });
    if (found <= most_tensors) continue;
    most = prefixes;
    most_tensors = found;
  }
  return most;
}

std::string TensorNames::Of(const TensorSpec& spec, uint32_t layer) const {
  std::string name = TensorName(spec, parts_.format, layer);
  if (parts_.format != Format::kHf) return name;
  if (!absl::StartsWith(name, kFamilyPrefix)) return absl::StrCat(parts_.prefixes.other, name);
  return absl::StrCat(parts_.prefixes.model, name.substr(kFamilyPrefix.size()));
}

TensorSpec TensorNames::Source(const TensorSpec& spec) const {
  const bool shared = spec.role == Role::kEmbedding || spec.role == Role::kOutput;
  if (!shared || !parts_.config.tied_embeddings) return spec;
  const TensorSpec& embedding = SpecOf(parts_, Role::kEmbedding);
  const TensorSpec& output = SpecOf(parts_, Role::kOutput);
  return !Has(embedding) && Has(output) ? output : embedding;
}

absl::Status TensorNames::Missing(const TensorSpec& spec, uint32_t layer) const {
  std::string text = absl::StrCat(parts_.origin, ": tensor ", Of(spec, layer), ": missing");
  const bool untied = parts_.format == Format::kHf && !parts_.config.tied_embeddings;
  const char* other = nullptr;
  if (untied && spec.role == Role::kOutput) other = "embedding";
  if (untied && spec.role == Role::kEmbedding && Has(SpecOf(parts_, Role::kOutput))) {
    other = "output matrix";
  }
  if (other != nullptr) {
    absl::StrAppend(&text, " (with tie_word_embeddings: true in config.json the ", other,
                    " would take its place)");
  }
  const std::string packed = PackedNameOf(Of(spec, layer), parts_.tensors);
  if (!packed.empty()) {
    absl::StrAppend(&text, " (there is ", packed,
                    ", but config.json has no quantization_config for it; put the one of "
                    "quantize_config.json or quant_config.json there)");
  }
  return absl::InvalidArgumentError(text);
}

bool TensorNames::InLayer(const std::string& name) const {
  if (parts_.format != Format::kHf) return absl::StartsWith(name, LayerPrefix(parts_.format));
  return absl::c_any_of(kPrefixes, [&name](const HfPrefixes& prefixes) {
    return absl::StartsWith(name, LayersOf(prefixes));
  });
}

bool TensorNames::IsBiasOfZeros(const StoredTensor& tensor) const {
  absl::string_view matrix = tensor.name;
  if (!absl::ConsumeSuffix(&matrix, ".bias")) return false;
  const auto found = stored_.find(absl::StrCat(matrix, ".weight"));
  return found != stored_.end() && found->second->type == StorageType::kPacked &&
         absl::c_all_of(tensor.bytes, [](std::byte each) { return each == std::byte{}; });
}

absl::Status TensorNames::CheckUnused(const StoredTensor& tensor) const {
  const std::string& name = tensor.name;
  const std::string where = absl::StrCat(tensor.file, ": tensor ", name, ": ");
  for (const absl::string_view part : absl::StrSplit(name, '.')) {
    if (!absl::c_linear_search(kOtherNetworks, part)) continue;
    return absl::UnimplementedError(
        absl::StrCat(where, "\"", part,
                     "\" is a network for other input than text, which is not supported; "
                     "save the language model alone"));
  }
  const std::vector<absl::string_view> words = absl::StrSplit(name, '.');
  const bool other_gguf =
      parts_.format == Format::kGguf && absl::c_linear_search(kOtherGgufNetworks, words.front());
  const auto changes = absl::c_find_if(
      words, [](absl::string_view word) { return absl::c_linear_search(kOtherParts, word); });
  if (other_gguf || changes != words.end()) {
    return absl::UnimplementedError(
        absl::StrCat(where, "a part that ", parts_.family->title, " models do not have"));
  }
  for (const std::string& ending : parts_.harmless) {
    if (absl::EndsWith(name, ending)) return absl::OkStatus();
  }
  if (IsBiasOfZeros(tensor)) return absl::OkStatus();
  if (!InLayer(name) && !absl::EndsWith(name, ".bias")) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(where, "not part of a ", parts_.config.num_layers,
                                               "-layer ", parts_.family->title,
                                               " model; leaving it out would change the result"));
}

}  // namespace folio::model
