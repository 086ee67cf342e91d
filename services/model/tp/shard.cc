#include "services/model/tp/shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/quantized.h"
#include "services/base/check.h"

namespace folio::model {
namespace {

using kernels::bf16;

// Part `index` of `parts` of `total`, as even as can be.
Range Part(uint32_t total, uint32_t index, uint32_t parts) {
  const auto at = [&](uint32_t i) { return static_cast<uint32_t>(uint64_t{total} * i / parts); };
  return {at(index), at(index + 1) - at(index)};
}

// The same in pieces that fill vectors and cache lines, where there are enough of them.
Range PartInPieces(uint32_t total, uint32_t index, uint32_t parts) {
  constexpr uint32_t kPiece = 32;
  if (total % kPiece != 0 || total / kPiece < parts) return Part(total, index, parts);
  const Range pieces = Part(total / kPiece, index, parts);
  return {pieces.first * kPiece, pieces.count * kPiece};
}

absl::Status TooFew(absl::string_view field, uint32_t have, uint32_t ranks) {
  return absl::InvalidArgumentError(absl::StrCat("tensor parallelism: ", field, ": ", have,
                                                 " cannot be cut over ", ranks, " ranks"));
}

// Heads of a rank where KV heads are on several ranks each.
void CutGroups(const ModelConfig& config, Shard& shard) {
  const uint32_t group = config.heads / config.kv_heads;
  shard.splits_groups = true;
  for (uint32_t head = 0; head < config.kv_heads; ++head) {
    // The ranks that have the head.
    const Range ranks = Part(shard.ranks, head, config.kv_heads);
    const uint32_t rank = shard.rank.value();
    if (rank < ranks.first || rank >= ranks.end()) continue;
    shard.kv_heads = {head, 1};
    shard.heads = Part(group, rank - ranks.first, ranks.count);
    shard.heads.first += head * group;
    shard.writes_scores = rank == ranks.first;
  }
}

// The rank's part of a dimension.
Range PartOf(Extent extent, const ModelConfig& config, const Shard& shard) {
  const auto in_heads = [&config](Range heads) {
    return Range{heads.first * config.head_dim, heads.count * config.head_dim};
  };
  switch (extent) {
    case Extent::kQueries:
      return in_heads(shard.heads);
    case Extent::kKeys:
      return in_heads(shard.kv_heads);
    case Extent::kFfn:
      return shard.ffn;
    case Extent::kOutputs:
      return shard.outputs;
    case Extent::kOne:
    case Extent::kHidden:
    case Extent::kVocab:
    case Extent::kHeadDim:
      break;
  }
  return {0, SizeOf(extent, config)};
}

// The rank's rows and columns of a whole tensor.
template <typename T>
absl::StatusOr<std::vector<T>> Cut(absl::StatusOr<std::vector<T>> whole, Role role, uint32_t layer,
                                   const ModelConfig& config, const Shard& shard) {
  if (!whole.ok() || shard.ranks == 1) return whole;
  const RoleInfo& info = InfoOf(role);
  const size_t rows = SizeOf(info.rows, config);
  const size_t cols = SizeOf(info.cols, config);
  if (whole->size() != rows * cols) {
    return absl::InvalidArgumentError(
        absl::StrCat(info.name, " of layer ", layer, " has ", whole->size(),
                     " elements, the configuration wants ", rows, " x ", cols));
  }
  const Range of_rows = PartOf(info.rows, config, shard);
  const Range of_cols = PartOf(info.cols, config, shard);
  std::vector<T> part;
  part.reserve(size_t{of_rows.count} * of_cols.count);
  for (size_t row = of_rows.first; row < of_rows.end(); ++row) {
    const T* first = whole->data() + row * cols + of_cols.first;
    part.insert(part.end(), first, first + of_cols.count);
  }
  return part;
}

// Some rows and columns of a quantised matrix. Columns are whole blocks.
class QuantizedPart final : public kernels::QuantizedMatrix {
 public:
  QuantizedPart(std::unique_ptr<kernels::QuantizedMatrix> whole, Range rows, Range cols)
      : whole_(std::move(whole)), rows_(rows), cols_(cols) {}

  const kernels::QuantizedFormat& format() const override { return whole_->format(); }
  uint32_t n() const override { return rows_.count; }
  uint32_t k() const override { return cols_.count; }

  void Read(uint32_t row, kernels::QuantizedRow& out) const override {
    if (cols_.count == whole_->k()) return whole_->Read(rows_.first + row, out);
    kernels::QuantizedRow all(format(), whole_->k());
    whole_->Read(rows_.first + row, all);
    const auto copy = [this](const auto& from, uint32_t values, auto& to) {
      if (!to.empty()) std::copy_n(from.begin() + cols_.first / values, to.size(), to.begin());
    };
    copy(all.codes, 1, out.codes);
    copy(all.scales, format().super, out.scales);
    copy(all.offset_scales, format().super, out.offset_scales);
    copy(all.steps, format().group, out.steps);
    copy(all.offsets, format().group, out.offsets);
  }

 private:
  std::unique_ptr<kernels::QuantizedMatrix> whole_;
  Range rows_, cols_;
};

}  // namespace

absl::StatusOr<Shard> ShardModel(const ModelConfig& config, Rank rank, uint32_t ranks) {
  if (ranks < 1 || rank.value() >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor parallelism: rank ", rank.value(), " of ", ranks, " is none"));
  }
  FOLIO_CHECK(config.kv_heads > 0 && config.heads % config.kv_heads == 0);
  if (config.ffn < ranks) return TooFew("feed-forward size", config.ffn, ranks);
  if (config.vocab < ranks) return TooFew("vocabulary size", config.vocab, ranks);
  const uint32_t group = config.heads / config.kv_heads;
  // Ranks of the KV head that has the most.
  const uint32_t sharers = (ranks + config.kv_heads - 1) / config.kv_heads;
  if (sharers > group) return TooFew("number of heads", config.heads, ranks);
  Shard shard;
  shard.rank = rank;
  shard.ranks = ranks;
  if (ranks > config.kv_heads) {
    CutGroups(config, shard);
  } else {
    shard.kv_heads = Part(config.kv_heads, rank.value(), ranks);
    shard.heads = {shard.kv_heads.first * group, shard.kv_heads.count * group};
  }
  shard.ffn = PartInPieces(config.ffn, rank.value(), ranks);
  shard.outputs = PartInPieces(config.vocab, rank.value(), ranks);
  return shard;
}

absl::StatusOr<std::vector<Shard>> ShardForAll(const ModelConfig& config, uint32_t ranks) {
  std::vector<Shard> shards;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    absl::StatusOr<Shard> shard = ShardModel(config, Rank(rank), ranks);
    if (!shard.ok()) return shard.status();
    shards.push_back(*shard);
  }
  return shards;
}

ModelConfig ShardConfig(const ModelConfig& config, const Shard& shard) {
  ModelConfig part = config;
  if (shard.ranks == 1) return part;
  part.heads = shard.heads.count;
  part.kv_heads = shard.kv_heads.count;
  part.ffn = shard.ffn.count;
  part.output_rows = shard.outputs.count;
  part.tied_embeddings = false;  // the output matrix is a part of the embedding
  return part;
}

kernels::PoolView ShardPool(const Shard& shard, std::byte* pages, float* board, uint32_t num_pages,
                            const CacheGeometry& geometry, uint32_t kv_heads) {
  FOLIO_CHECK(geometry.num_kv_heads == shard.kv_heads.count);
  return {.pages = pages,
          .scores = shard.writes_scores ? board : nullptr,
          .num_pages = num_pages,
          .geometry = geometry,
          .all_kv_heads = kv_heads,
          .first_board_head = shard.kv_heads.first};
}

ShardSource::ShardSource(const ModelSource& whole, const Shard& shard)
    : whole_(whole), shard_(shard), config_(ShardConfig(whole.config(), shard)) {}

absl::StatusOr<std::vector<bf16>> ShardSource::ReadMatrix(Role role, uint32_t layer) const {
  return Cut(whole_.ReadMatrix(role, layer), role, layer, whole_.config(), shard_);
}

absl::StatusOr<std::vector<float>> ShardSource::ReadVector(Role role, uint32_t layer) const {
  return Cut(whole_.ReadVector(role, layer), role, layer, whole_.config(), shard_);
}

absl::StatusOr<std::unique_ptr<kernels::QuantizedMatrix>> ShardSource::ReadQuantized(
    Role role, uint32_t layer) const {
  auto matrix = whole_.ReadQuantized(role, layer);
  if (!matrix.ok() || *matrix == nullptr || shard_.ranks == 1) return matrix;
  const Range rows = PartOf(InfoOf(role).rows, whole_.config(), shard_);
  const Range cols = PartOf(InfoOf(role).cols, whole_.config(), shard_);
  const uint32_t block = (*matrix)->format().super;
  if (cols.first % block != 0 || cols.count % block != 0) {
    return absl::UnimplementedError("a rank's columns begin or end within a block");
  }
  return std::make_unique<QuantizedPart>(*std::move(matrix), rows, cols);
}

absl::StatusOr<ScaledMatrix> ShardSource::ReadScaled(Role role, uint32_t layer) const {
  absl::StatusOr<ScaledMatrix> matrix = whole_.ReadScaled(role, layer);
  if (!matrix.ok()) return matrix;
  auto codes = Cut<kernels::e4m3>(std::move(matrix->codes), role, layer, whole_.config(), shard_);
  if (!codes.ok()) return codes.status();
  const Range rows = PartOf(InfoOf(role).rows, whole_.config(), shard_);
  const auto first = matrix->scales.begin() + rows.first;
  return ScaledMatrix{*std::move(codes), {first, first + rows.count}};
}

}  // namespace folio::model
