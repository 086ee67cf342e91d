// Shard is the part of a model that one rank of a tensor-parallel group holds (Shoeybi et al.,
// "Megatron-LM", arXiv 1909.08053). Attention heads, the columns of the feed-forward network and
// the rows of the output matrix are cut; norms and the embedding are on every rank.
//
// KV heads are cut whole, with the query heads that read them, one head more on some ranks where
// they do not divide. With more ranks than KV heads, a KV head is on several ranks, which cut its
// query heads between them; the first of them writes its scores.
#ifndef FOLIO_SERVICES_MODEL_TP_SHARD_H_
#define FOLIO_SERVICES_MODEL_TP_SHARD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/views.h"
#include "services/base/ids.h"
#include "services/model/source/model_source.h"

namespace folio::model {

// Neighbouring heads, columns or rows.
struct Range {
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t end() const { return first + count; }
  friend bool operator==(const Range&, const Range&) = default;
};

// One rank's part of a model.
struct Shard {
  Rank rank;
  uint32_t ranks = 1;
  Range heads, kv_heads;  // of the whole model's
  Range ffn;
  Range outputs;               // of the vocabulary: rows of the output matrix
  bool writes_scores = true;   // false: an earlier rank has the same KV head
  bool splits_groups = false;  // some KV head is on several ranks, the same on all ranks
};

// The part of `rank`. INVALID_ARGUMENT names the field of the model that `ranks` cannot be cut by,
// or the rank that is none.
absl::StatusOr<Shard> ShardModel(const ModelConfig& config, Rank rank, uint32_t ranks);

// The parts of all ranks.
absl::StatusOr<std::vector<Shard>> ShardForAll(const ModelConfig& config, uint32_t ranks);

// The configuration of the rank's own transformer: its heads, feed-forward columns and outputs.
ModelConfig ShardConfig(const ModelConfig& config, const Shard& shard);

// The rank's view of its own pages of `geometry` (the rank's heads) and of the board, whose rows
// have a column for each of the model's `kv_heads`.
kernels::PoolView ShardPool(const Shard& shard, std::byte* pages, float* board, uint32_t num_pages,
                            const CacheGeometry& geometry, uint32_t kv_heads);

// A model's rows and columns of one rank, read from the whole: config() is ShardConfig's, tensors
// have its shapes. The tokenizer and the fingerprint are the whole model's. As thread-compatible as
// what it reads from, which it borrows.
class ShardSource final : public ModelSource {
 public:
  ShardSource(const ModelSource& whole, const Shard& shard);

  const ModelConfig& config() const override { return config_; }
  const TokenizerSpec& tokenizer() const override { return whole_.tokenizer(); }
  absl::StatusOr<std::vector<kernels::bf16>> ReadMatrix(Role role, uint32_t layer) const override;
  absl::StatusOr<std::vector<float>> ReadVector(Role role, uint32_t layer) const override;
  // The whole's codes, so that a scale is that of a whole row.
  absl::StatusOr<ScaledMatrix> ReadScaled(Role role, uint32_t layer) const override;
  // UNIMPLEMENTED also if the rank's columns begin or end within a block.
  absl::StatusOr<std::unique_ptr<kernels::QuantizedMatrix>> ReadQuantized(
      Role role, uint32_t layer) const override;
  std::string fingerprint() const override { return whole_.fingerprint(); }

 private:
  const ModelSource& whole_;
  const Shard shard_;
  const ModelConfig config_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TP_SHARD_H_
