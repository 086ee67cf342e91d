// ParityCache is one layer of one sequence in pages, filled and scored by Folio's own kernels.
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

  // The board after the kernel of `kind` wrote it, with NaN where it did not write.
  Rows Scores(kernels::ScoreKind kind);

  // The attention of the window's queries, averaged over them and over the query heads of a KV
  // head, without pooling. It is the result of Attention with unit vectors as values, which replace
  // the values.
  Rows AttentionMass();

 private:
  void Append(kernels::ScoreKind kind);
  kernels::AttentionItem WindowItem(uint32_t first_row) const;
  // Value of token first + i: 1 in column i, else 0.
  void SetUnitValues(uint32_t first);

  const Vectors& v_;
  const kernels::cpu::CpuOps& ops_;
  kernels::ThreadPool pool_{2};
  const CacheGeometry geometry_;
  const kernels::AttentionShape shape_;
  std::vector<kernels::bf16> memory_;
  std::vector<float> board_;
  std::vector<uint32_t> table_;
  kernels::PoolView pages_;
  std::vector<uint8_t> q_;  // all rows, as the family keeps activations
};

}  // namespace folio::parity

#endif  // FOLIO_TESTS_PARITY_PARITY_CACHE_H_
