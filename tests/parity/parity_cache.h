// One layer of one sequence in pages, filled and scored by Folio's own kernels.
#ifndef FOLIO_TESTS_PARITY_PARITY_CACHE_H_
#define FOLIO_TESTS_PARITY_PARITY_CACHE_H_

#include <cstdint>
#include <vector>

#include "kernels/cpu/ops.h"
#include "tests/parity/vectors.h"

namespace folio::parity {

// [tokens][kv_heads], as on the board.
using Rows = std::vector<std::vector<float>>;

class ParityCache {
 public:
  // Appends the vectors' keys and values. Both are borrowed.
  ParityCache(const Vectors& vectors, const kernels::cpu::CpuOps& ops);
  ParityCache(const ParityCache&) = delete;
  ParityCache& operator=(const ParityCache&) = delete;

  // The board after the kernel of `kind` wrote it; NaN where it did not.
  Rows Scores(kernels::ScoreKind kind);

  // What the window's queries attend to, mean over them and over the query heads of a KV head, no
  // pooling: what Attention returns when the values are unit vectors. Replaces the values.
  Rows AttentionMass();

 private:
  void Append(kernels::ScoreKind kind);
  kernels::AttentionRun WindowRun(uint32_t first_row) const;
  // Value of token first + i: 1 in column i, else 0.
  void SetUnitValues(uint32_t first);

  const Vectors& v_;
  const kernels::cpu::CpuOps& ops_;
  kernels::cpu::ThreadPool pool_{2};
  const CacheGeometry geometry_;
  const kernels::cpu::AttentionShape shape_;
  std::vector<kernels::bf16> memory_;
  std::vector<float> board_;
  std::vector<uint32_t> table_;
  kernels::PoolView pages_;
  std::vector<uint8_t> q_;  // all rows, as the family keeps activations
};

}  // namespace folio::parity

#endif  // FOLIO_TESTS_PARITY_PARITY_CACHE_H_
