// A Family is a model architecture as data: how its files name tensors and sizes, and what its
// layers compute. Loaders, shape checks, shards and transformers loop over it, so that a family
// whose features exist already is one source file and one line in registry.cc (see README.md).
//
// It is data and not a class because families differ in names and in a few switches, not in the
// order of things: one forward pass with switches is tested once, on every device.
#ifndef FOLIO_SERVICES_MODEL_FAMILY_FAMILY_H_
#define FOLIO_SERVICES_MODEL_FAMILY_FAMILY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/model/family/features.h"
#include "services/model/family/model_config.h"
#include "services/model/family/role.h"

namespace folio::model {

// The formats that a model comes in.
enum class Format : uint8_t { kGguf, kHf };

// A tensor and its names. A layer's tensor is named without the layer: Hugging Face files have
// "model.layers.N." in front, GGUF files "blk.N.". Neighbours in a family's list that have one name
// are one tensor in the file, their rows one below the other (fused projections).
struct TensorSpec {
  Role role;
  const char* gguf;
  const char* hf;
};

// A number of ModelConfig and its keys: in GGUF metadata, behind "<architecture>.", and in
// config.json.
struct SizeKey {
  uint32_t ModelConfig::*field;
  const char* gguf;
  const char* hf;
};
// The keys that all families of today share; kv_heads, head_dim, vocab and the rotary embedding
// have rules of their own, which are the formats' (see services/model/source).
absl::Span<const SizeKey> CommonSizeKeys();

// A field of config.json that asks for something else than the family computes unless it is
// missing, null or this value.
struct HfLimit {
  const char* key;
  const char* only;  // as JSON
};

// The order of a head's rows in the GGUF files of a family. Hugging Face files always have halves.
enum class RopeRows : uint8_t {
  kHalves,  // first elements of all pairs, then the second ones ("NEOX")
  kPairs,   // the two elements of a pair side by side ("NORM")
};

// HfDefaults stand for fields that config.json lacks.
struct HfDefaults {
  uint32_t head_dim = 0;  // 0: the hidden size divided by the heads
  float rope_theta = 10000;
  float query_scalar = 0;  // scores are divided by its square root (0: by that of head_dim)
  bool tied = false;       // the embedding and the output matrix
};

struct Family {
  const char* name;   // ModelConfig::architecture; fingerprints have it, so it stays
  const char* title;  // "Llama", for messages
  // general.architecture, and the start of the keys. Null where converters write another family's.
  const char* gguf_architecture;
  const char* hf_architecture;  // an entry of `architectures`
  const char* hf_model_type;
  Features features;
  RopeRows gguf_rows;
  // The model's tensors, then a layer's. The order is that of the fingerprint: append, never move.
  absl::Span<const TensorSpec> tensors;
  absl::Span<const HfLimit> hf_limits;
  // The configuration may have a window ("sliding_window") of latest tokens to which each layer
  // attends. Up to its length that is full attention, so the model is served with that context.
  bool windowed = false;
  // Keys of configurations that are refused in other families (unserved_fields.cc), and that this
  // one computes: of GGUF files without the architecture, and of config.json.
  absl::Span<const char* const> own_fields = {};
  // The configuration has factors of the embedding, the scores, the residuals and the logits
  // (Multipliers of services/model/source).
  bool has_multipliers = false;
  // Hugging Face files hold a norm's weights less one. GGUF files hold them whole.
  bool hf_norms_less_one = false;
  HfDefaults hf_defaults = {};
  // The entry of a model without its output matrix, where it is not that of the whole one with
  // "Model" in place of "ForCausalLM".
  const char* hf_base_architecture = nullptr;
};

// All families, in registry.cc.
absl::Span<const Family* const> Families();
// Null where there is none.
const Family* FindFamily(absl::string_view name);
// Their names in a format, for messages ("llama, qwen2").
std::string KnownArchitectures(Format format);

// The start of the names of a layer's tensors, before the layer's number.
absl::string_view LayerPrefix(Format format);
// The whole name of a tensor; `layer` counts for the roles that are in layers.
std::string TensorName(const TensorSpec& spec, Format format, uint32_t layer);

// The number of elements of all tensors of a model of a known family (CHECKed). An output matrix
// that is tied is not counted.
uint64_t CountParameters(const ModelConfig& config);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_FAMILY_FAMILY_H_
