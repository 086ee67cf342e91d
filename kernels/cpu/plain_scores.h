// This header has the plain family's scores of resident tokens. The definitions are plain loops
// with sums in double.
#ifndef FOLIO_KERNELS_CPU_PLAIN_SCORES_H_
#define FOLIO_KERNELS_CPU_PLAIN_SCORES_H_

#include "absl/types/span.h"
#include "kernels/cpu/ops.h"

namespace folio::kernels::cpu::plain {

// As CpuOps::ScoreResident.
void ScoreResident(ThreadPool& pool, absl::Span<const ResidentItem> runs, const PoolView& pages);

// As CpuOps::ScoreUnrotated.
void ScoreUnrotated(ThreadPool& pool, absl::Span<const UnrotatedItem> runs, const RopeTable& rope,
                    const PoolView& pages);

// As CpuOps::ScoreWindow. q [rows, heads * head_dim].
void ScoreWindow(ThreadPool& pool, Matrix<const float> q, absl::Span<const WindowItem> runs,
                 const AttentionShape& shape, const PoolView& pages);

}  // namespace folio::kernels::cpu::plain

#endif  // FOLIO_KERNELS_CPU_PLAIN_SCORES_H_
