// These passes change rows in place: queries, keys and values between the products and the
// rotation, and hidden states. Each row's result depends on that row alone. They return when they
// are done.
#ifndef FOLIO_SERVICES_MODEL_CPU_ROW_PASSES_H_
#define FOLIO_SERVICES_MODEL_CPU_ROW_PASSES_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "kernels/cpu/ops.h"
#include "services/model/family/model_config.h"

namespace folio::model {

// Calls `pass` for each of the rows, of which several threads have some each.
void ForEachRow(kernels::ThreadPool& threads, size_t rows,
                absl::FunctionRef<void(size_t row)> pass);

// Adds `bias`, [cols], to each of the rows, [rows, cols]. Nothing is added if it is empty.
void AddBias(kernels::ThreadPool& threads, absl::Span<const float> bias,
             const kernels::Matrix<float>& rows);

// The weights of the norms of each head's query and key, [head_dim] each. Both are empty where the
// model has none.
struct HeadNorms {
  absl::Span<const float> query, key;
  float eps = 0;
};

// Makes each head x of the queries and keys x / sqrt(mean(x^2) + eps) * weight. Rows are
// [heads + 2 kv_heads] x head_dim, in which the values stay as they are.
void NormHeads(kernels::ThreadPool& threads, const HeadNorms& norms,
               const kernels::AttentionShape& shape, const kernels::Matrix<float>& rows);

// Multiplies the queries of each row by 1 + beta * ln(1 + floor(position / original_context)).
// slots[i].position is that of row i.
void ScaleQueries(kernels::ThreadPool& threads, const QueryScale& scale,
                  const kernels::AttentionShape& shape, absl::Span<const kernels::AppendSlot> slots,
                  const kernels::Matrix<float>& rows);

// Makes each row x of `added` x / sqrt(mean(x^2) + eps) * weight, and adds it to that of `rows`.
void AddNormed(kernels::ThreadPool& threads, const kernels::Matrix<float>& added,
               absl::Span<const float> weight, float eps, const kernels::Matrix<float>& rows);

// Multiplies the rows by `factor`.
void ScaleRows(kernels::ThreadPool& threads, float factor, const kernels::Matrix<float>& rows);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CPU_ROW_PASSES_H_
