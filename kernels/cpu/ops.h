// CpuOps is the set of operations that a transformer needs on a CPU. Two kinds of kernels implement
// it. The plain kernels have float32 activations and are the specification. The fast kernels have
// bfloat16 activations, with one implementation per instruction set.
//
// Every operation is batch-invariant: the result of a row depends on that row's inputs alone, to
// the bit. The number of rows in the batch, the row's place in it, the chunks that a prompt was cut
// into and the number of threads do not change it. A request therefore gives the same tokens alone
// and in a batch. (A prompt row and a decode row may differ from each other, and `RowSplit` tells
// which is which.)
//
// Operations run on the caller's ThreadPool and return when they are done. They are not
// thread-safe, because they keep scratch memory from step to step.
#ifndef FOLIO_KERNELS_CPU_OPS_H_
#define FOLIO_KERNELS_CPU_OPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/activation.h"
#include "kernels/cpu/quantized_ops.h"
#include "kernels/threads/thread_pool.h"
#include "kernels/views.h"

namespace folio::kernels::cpu {

// Activations between operations, [rows, cols] dense, are float32 in the plain family and bf16 in
// the fast one. The caller owns the memory of rows * cols * CpuOps::activation_bytes() bytes,
// aligned to 64.
struct Activations {
  void* data = nullptr;
  uint32_t rows = 0;
  uint32_t cols = 0;
};

// A weight matrix [n, k] in the layout of its family. Immutable, so that threads share it.
class PackedWeights {
 public:
  virtual ~PackedWeights() = default;
  virtual uint32_t n() const = 0;
  virtual uint32_t k() const = 0;
  virtual size_t bytes() const = 0;
};

class CpuOps : public QuantizedOps {
 public:
  // "plain", "avx512_amx", "avx512_bf16", "avx512", "avx2", "portable"
  virtual absl::string_view name() const = 0;
  virtual size_t activation_bytes() const = 0;  // of one element

  // Copies `weight`, [n, k] row-major, into the family's layout.
  virtual std::unique_ptr<PackedWeights> Pack(Matrix<const bf16> weight) const = 0;
  // Two matrices of equal shape whose products feed a gated network, packed to be computed
  // together.
  virtual std::unique_ptr<PackedWeights> PackGated(Matrix<const bf16> gate, Matrix<const bf16> up,
                                                   Activation activation) const = 0;

  // out[r] = embedding[ids[r]] as float32. `embedding` is [vocab, hidden] row-major.
  virtual void Embed(ThreadPool& pool, Matrix<const bf16> embedding, absl::Span<const uint32_t> ids,
                     Matrix<float> out) const = 0;

  // out = x / sqrt(mean(x^2) + eps) * weight, row by row; mean in float32.
  virtual void RmsNorm(ThreadPool& pool, Matrix<const float> x, absl::Span<const float> weight,
                       float eps, Activations out) const = 0;

  // out = in * W^T, or out += in * W^T; float32 sums. in [rows, k], out [rows, n].
  virtual void Linear(ThreadPool& pool, RowSplit rows, Activations in, const PackedWeights& weight,
                      Matrix<float> out, bool accumulate) const = 0;

  // out = activation(in * gate^T) * (in * up^T). in [rows, k], out [rows, n].
  virtual void GatedLinear(ThreadPool& pool, RowSplit rows, Activations in,
                           const PackedWeights& gate_up, Activations out) const = 0;

  // Takes each row of qkv, [q heads | k heads | v heads] x head_dim float32, in one pass. It
  // rotates q and k by the row's position, writes q to `q` (unscaled) and rounds k and v to bf16
  // into the row's token slot. From the values as stored it writes the slot's score per KV head:
  // kNormRatio is ||v||2 / ||k||2 (0 when both are 0, FLT_MAX when only the key is 0),
  // kInverseKeyNorm is 1 / ||k||2 (FLT_MAX for a zero key), and kValueNorm is ||v||2. Other kinds
  // write none.
  virtual void RopeAppendScore(ThreadPool& pool, Matrix<const float> qkv,
                               const AttentionShape& shape, const RopeTable& rope,
                               absl::Span<const AppendSlot> slots, const PoolView& pages,
                               Activations q) const = 0;

  // softmax(q k^T / sqrt(head_dim)) v over each item's pages, with a float32 softmax. q and out are
  // [rows, heads * head_dim]. Items cover rows [0, split.total()) in order, and a decode item has
  // one row.
  virtual void Attention(ThreadPool& pool, RowSplit split, Activations q,
                         absl::Span<const AttentionItem> runs, const AttentionShape& shape,
                         const PoolView& pages, Activations out) const = 0;

  // Writes kKeyDifference of every token of each item: -cos(k, m) per KV head, where m is the mean
  // of the item's keys, each divided by its norm (Park et al., KeyDiff, arXiv 2504.15364). A key
  // whose squares sum to less than FLT_MIN has no direction, so it adds nothing to m and scores 0.
  // All tokens score 0 where m is shorter than kMinMeanNorm, because such a direction is rounding
  // noise.
  virtual void ScoreResident(ThreadPool& pool, absl::Span<const ResidentItem> runs,
                             const PoolView& pages) const = 0;

  // Writes kUnrotatedDifference of the slots [first, tokens) of each item: -cos(x, m) per KV head.
  // Here x is the stored key turned back by its position's angles, and m is the mean of x / ||x||
  // over the slots page_tokens - 1 + i * stride, i >= 1, below `tokens`. Vanishing keys and means
  // count as in ScoreResident. Without any such slot all tokens score 0.
  virtual void ScoreUnrotated(ThreadPool& pool, absl::Span<const UnrotatedItem> runs,
                              const RopeTable& rope, const PoolView& pages) const = 0;

  // Writes kWindowAttention of every slot of each item (Li et al., SnapKV, arXiv 2404.14469). The
  // item's rows attend as in Attention, their softmax(q k^T / sqrt(head_dim)) is averaged over them
  // and over the query heads of a KV head, and each slot takes the maximum over its `neighbours` on
  // each side. q is as RopeAppendScore left it.
  virtual void ScoreWindow(ThreadPool& pool, Activations q, absl::Span<const WindowItem> runs,
                           const AttentionShape& shape, const PoolView& pages) const = 0;
};

inline constexpr double kMinMeanNorm = 1e-6;  // of kKeyDifference and kUnrotatedDifference

// The specification, with float32 activations and plain loops.
std::unique_ptr<CpuOps> MakePlainOps();

// The fastest family this CPU can run, or the one called `name` ("auto" chooses). INVALID_ARGUMENT
// for an unknown name, FAILED_PRECONDITION naming the missing CPU feature.
absl::StatusOr<std::unique_ptr<CpuOps>> MakeFastOps(absl::string_view name = "auto");

// Moves the surviving tokens of one layer together, in place and in order. The K, V and this rank's
// scores of slot keep[i] go to slot i. `keep` is ascending. Every family uses it.
void CompactLayer(const PoolView& pool, absl::Span<const uint32_t> table,
                  absl::Span<const uint32_t> keep);

// Makes K and V of one page zero. Its scores stay, because nothing reads them before its tokens are
// scored. Every family uses it.
void ClearPage(const PoolView& pool, uint32_t page);

}  // namespace folio::kernels::cpu

#endif  // FOLIO_KERNELS_CPU_OPS_H_
