#include "services/model/cpu/row_passes.h"

#include <algorithm>

#include "kernels/cpu/plain_loops.h"
#include "services/base/check.h"

namespace folio::model {

using kernels::cpu::plain::BestLoops, kernels::cpu::plain::Loops;

void ForEachRow(kernels::ThreadPool& threads, size_t rows,
                absl::FunctionRef<void(size_t row)> pass) {
  constexpr size_t kRowBlock = 16;
  threads.ParallelFor(static_cast<int>((rows + kRowBlock - 1) / kRowBlock), [&](int task, int) {
    const size_t first = static_cast<size_t>(task) * kRowBlock;
    for (size_t r = first; r < std::min(rows, first + kRowBlock); ++r) pass(r);
  });
}

void AddBias(kernels::ThreadPool& threads, absl::Span<const float> bias,
             const kernels::Matrix<float>& rows) {
  if (bias.empty()) return;
  FOLIO_CHECK(bias.size() == rows.cols);
  ForEachRow(threads, rows.rows, [&](size_t r) {
    float* row = rows.row(r);
    for (size_t i = 0; i < bias.size(); ++i) row[i] += bias[i];
  });
}

void NormHeads(kernels::ThreadPool& threads, const HeadNorms& norms,
               const kernels::AttentionShape& shape, const kernels::Matrix<float>& rows) {
  if (norms.query.empty()) return;
  FOLIO_CHECK(norms.query.size() == shape.head_dim && norms.key.size() == shape.head_dim &&
              rows.cols == size_t{shape.heads + 2 * shape.kv_heads} * shape.head_dim);
  const Loops& loops = BestLoops();
  ForEachRow(threads, rows.rows, [&](size_t r) {
    float* head = rows.row(r);
    for (uint32_t i = 0; i < shape.heads + shape.kv_heads; ++i, head += shape.head_dim) {
      const float* weight = i < shape.heads ? norms.query.data() : norms.key.data();
      loops.norm(head, weight, norms.eps, shape.head_dim);
    }
  });
}

void ScaleQueries(kernels::ThreadPool& threads, const QueryScale& scale,
                  const kernels::AttentionShape& shape, absl::Span<const kernels::AppendSlot> slots,
                  const kernels::Matrix<float>& rows) {
  FOLIO_CHECK(slots.size() == rows.rows);
  ForEachRow(threads, rows.rows, [&](size_t r) {
    const float factor = QueryFactor(scale, slots[r].position);
    float* row = rows.row(r);
    for (uint32_t i = 0; factor != 1 && i < shape.heads * shape.head_dim; ++i) row[i] *= factor;
  });
}

void AddNormed(kernels::ThreadPool& threads, const kernels::Matrix<float>& added,
               absl::Span<const float> weight, float eps, const kernels::Matrix<float>& rows) {
  FOLIO_CHECK(added.rows == rows.rows && added.cols == rows.cols && weight.size() == rows.cols);
  const Loops& loops = BestLoops();
  ForEachRow(threads, rows.rows, [&](size_t r) {
    loops.add_normed(added.row(r), weight.data(), eps, rows.cols, rows.row(r));
  });
}

void ScaleRows(kernels::ThreadPool& threads, float factor, const kernels::Matrix<float>& rows) {
  ForEachRow(threads, rows.rows, [&](size_t r) {
    float* row = rows.row(r);
    for (size_t i = 0; i < rows.cols; ++i) row[i] *= factor;
  });
}

}  // namespace folio::model
