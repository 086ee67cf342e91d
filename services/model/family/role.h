// A Role is what a tensor does in a transformer, whatever a file calls it: the embedding, a layer's
// query matrix, a bias. RoleInfo says what is the same in every model family: whether each layer
// has one, its shape in terms of the configuration, and with that how ranks cut it.
#ifndef FOLIO_SERVICES_MODEL_FAMILY_ROLE_H_
#define FOLIO_SERVICES_MODEL_FAMILY_ROLE_H_

#include <cstddef>
#include <cstdint>

#include "services/model/family/model_config.h"

namespace folio::model {

enum class Role : uint8_t {
  kEmbedding,
  kOutput,  // equals kEmbedding when tied
  kFinalNorm,
  kAttentionNorm,
  kFfnNorm,
  kQuery,
  kKey,
  kValue,
  kAttentionOut,
  kGate,
  kUp,
  kDown,
  kQueryBias,
  kKeyBias,
  kValueBias,
  kQueryNorm,  // of each head, and so is kKeyNorm
  kKeyNorm,
  kPostAttentionNorm,  // of what attention adds to the state
  kPostFfnNorm,        // of what the feed-forward network adds
};
inline constexpr size_t kRoles = static_cast<size_t>(Role::kPostFfnNorm) + 1;

// An Extent is what a tensor's dimension counts. Tensor parallelism follows from it: heads, the
// feed-forward network and the rows of the output matrix are cut, all else is on every rank.
enum class Extent : uint8_t {
  kOne,      // the columns of a vector
  kHidden,   // whole on every rank
  kVocab,    // whole on every rank: the embedding, which is looked up in
  kOutputs,  // the vocabulary, cut: the output matrix
  kQueries,  // heads * head_dim, cut by heads
  kKeys,     // kv_heads * head_dim, cut by KV heads
  kFfn,      // cut
  kHeadDim,  // whole on every rank
};

// How many there are in `config`; a rank's own configuration gives the rank's part.
uint32_t SizeOf(Extent extent, const ModelConfig& config);

struct RoleInfo {
  Role role;
  const char* name;  // "the query matrix", for messages
  bool in_layer;     // false: the model has one
  Extent rows, cols;
  // Rows are turned by rotary embedding in pairs, so their order depends on the file's layout.
  bool rotated;

  bool vector() const { return cols == Extent::kOne; }
  // Weights of a norm, which has one for each number of a state or of a head.
  bool norm() const { return vector() && (rows == Extent::kHidden || rows == Extent::kHeadDim); }
};

const RoleInfo& InfoOf(Role role);

// The projections of a layer's input that are computed as one product, in the order of its rows.
inline constexpr Role kQkvRoles[] = {Role::kQuery, Role::kKey, Role::kValue};
inline constexpr Role kQkvBiasRoles[] = {Role::kQueryBias, Role::kKeyBias, Role::kValueBias};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_FAMILY_ROLE_H_
