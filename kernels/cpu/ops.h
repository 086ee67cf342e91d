// The operations a Llama-family transformer needs on a CPU, in two families with one interface:
// plain (float32 activations, the specification) and fast (bfloat16 activations, one per
// instruction set).
//
// Contract of every op, the "row rule": what is computed for a row depends on that row's inputs
// alone, to the bit. Neither the number of rows in the batch, nor the row's place in it, nor the
// chunk a prompt was cut into, nor the number of threads may change it. (A prompt row and a decode
// row may differ from each other: `RowSplit` says which is which.) So a request gives the same
// tokens alone and in company.
//
// Ops run on the caller's ThreadPool and return when done. Not thread-safe: one step at a time.
#ifndef FOLIO_KERNELS_CPU_OPS_H_
#define FOLIO_KERNELS_CPU_OPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/views.h"

namespace folio::kernels::cpu {

// Rows of a batch: decode rows come first, then prompt rows.
struct RowSplit {
  uint32_t decode_rows = 0;
  uint32_t prompt_rows = 0;
  uint32_t total() const { return decode_rows + prompt_rows; }
};

// Activations between ops, [rows, cols] dense: float32 in the plain family, bf16 in the fast one.
// Owned by whoever calls: rows * cols * CpuOps::activation_bytes() bytes, aligned to 64.
struct Activations {
  void* data = nullptr;
  uint32_t rows = 0;
  uint32_t cols = 0;
};

// A weight matrix [n, k] in the layout its family wants. Immutable, shared by threads.
class PackedWeights {
 public:
  virtual ~PackedWeights() = default;
  virtual uint32_t n() const = 0;
  virtual uint32_t k() const = 0;
  virtual size_t bytes() const = 0;
};

using kernels::AttentionShape;
using kernels::RopeTable;

class CpuOps {
 public:
  virtual ~CpuOps() = default;

  virtual absl::string_view name()
      const = 0;  // "plain", "avx512_bf16", "avx512", "avx2", "portable"
  virtual size_t activation_bytes() const = 0;  // of one element

  // Copies `weight`, [n, k] row-major, into the family's layout.
  virtual std::unique_ptr<PackedWeights> Pack(Matrix<const bf16> weight) const = 0;
  // Two matrices of equal shape whose products feed SwiGLU, packed to be computed together.
  virtual std::unique_ptr<PackedWeights> PackGated(Matrix<const bf16> gate,
                                                   Matrix<const bf16> up) const = 0;

  // out[r] = embedding[ids[r]] as float32. `embedding` is [vocab, hidden] row-major.
  virtual void Embed(ThreadPool& pool, Matrix<const bf16> embedding, absl::Span<const uint32_t> ids,
                     Matrix<float> out) const = 0;

  // out = x / sqrt(mean(x^2) + eps) * weight, row by row; mean in float32.
  virtual void RmsNorm(ThreadPool& pool, Matrix<const float> x, absl::Span<const float> weight,
                       float eps, Activations out) const = 0;

  // out = in * W^T, or out += in * W^T; float32 sums. in [rows, k], out [rows, n].
  virtual void Linear(ThreadPool& pool, RowSplit rows, Activations in, const PackedWeights& weight,
                      Matrix<float> out, bool accumulate) const = 0;

  // out = silu(in * gate^T) * (in * up^T). in [rows, k], out [rows, n].
  virtual void GatedLinear(ThreadPool& pool, RowSplit rows, Activations in,
                           const PackedWeights& gate_up, Activations out) const = 0;

  // Per row of qkv, [q heads | k heads | v heads] x head_dim float32: turns q and k by the row's
  // position, writes q to `q` (unscaled), rounds k and v to bf16 into the row's page slot, and
  // writes the slot's score from the values as stored, per KV head: kNormRatio is ||v||2 / ||k||2
  // (0 when both are 0; a zero key alone scores FLT_MAX), kInverseKeyNorm 1 / ||k||2 (a zero key
  // scores FLT_MAX), other kinds write none. One pass over the row.
  virtual void RopeAppendScore(ThreadPool& pool, Matrix<const float> qkv,
                               const AttentionShape& shape, const RopeTable& rope,
                               absl::Span<const AppendSlot> slots, const PoolView& pages,
                               Activations q) const = 0;

  // softmax(q k^T / sqrt(head_dim)) v over each run's pages; float32 softmax. q and out [rows,
  // heads * head_dim]. Runs cover rows [0, split.total()) in order; decode runs have one row each.
  virtual void Attention(ThreadPool& pool, RowSplit split, Activations q,
                         absl::Span<const AttentionRun> runs, const AttentionShape& shape,
                         const PoolView& pages, Activations out) const = 0;

  // kKeyDifference of every token of each run: -cos(k, m) per KV head, m being the mean of the
  // run's keys, each divided by its norm (Park et al., KeyDiff, arXiv 2504.15364). A key whose
  // squares sum to less than FLT_MIN has no direction: it adds nothing to m and scores 0. All score
  // 0 where m is shorter than kLeastMeanNorm: such a direction is rounding.
  virtual void ScoreResident(ThreadPool& pool, absl::Span<const ResidentRun> runs,
                             const PoolView& pages) const = 0;

  // kUnrotatedDifference of the slots [first, tokens) of each run: -cos(x, m) per KV head, x being
  // the stored key turned back by its position's angles, m the mean of x / ||x|| over the slots
  // page_tokens - 1 + i * stride, i >= 1, below `tokens`. Vanishing keys and means count as in
  // ScoreResident; without any such slot all score 0.
  virtual void ScoreUnrotated(ThreadPool& pool, absl::Span<const UnrotatedRun> runs,
                              const RopeTable& rope, const PoolView& pages) const = 0;

  // kWindowAttention of every slot of each run: softmax(q k^T / sqrt(head_dim)) of the run's rows,
  // which attend as in Attention, averaged over them and over the query heads of a KV head; then
  // the maximum over the run's neighbouring slots on each side (Li et al., SnapKV, arXiv
  // 2404.14469). q as RopeAppendScore left it.
  virtual void ScoreWindow(ThreadPool& pool, Activations q, absl::Span<const WindowRun> runs,
                           const AttentionShape& shape, const PoolView& pages) const = 0;
};

inline constexpr double kLeastMeanNorm = 1e-6;  // of kKeyDifference and kUnrotatedDifference

// The reference: float32 activations, plain loops.
std::unique_ptr<CpuOps> MakePlainOps();

// The fastest family this CPU can run, or the one called `name` ("auto" chooses). INVALID_ARGUMENT
// for an unknown name, FAILED_PRECONDITION naming the missing CPU feature.
absl::StatusOr<std::unique_ptr<CpuOps>> MakeFastOps(absl::string_view name = "auto");

// Moves the surviving tokens of one layer together, in place, order kept: slot keep[i] goes to slot
// i, K, V and this rank's scores. `keep` ascending. Same for every family.
void CompactLayer(const PoolView& pool, absl::Span<const uint32_t> table,
                  absl::Span<const uint32_t> keep);

}  // namespace folio::kernels::cpu

#endif  // FOLIO_KERNELS_CPU_OPS_H_
