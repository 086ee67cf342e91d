// QuantizedProducts computes matrix products with StripWeights on the threads of a pool. Decode
// rows are quantised and multiplied as they are. Prompt rows are too where bf16 arithmetic is slow.
// Elsewhere PromptGemm turns strips into bf16 panels, some at a time, and multiplies them before
// they leave the caches: many rows pay for that.
#ifndef FOLIO_KERNELS_CPU_FAST_QUANTIZED_PRODUCTS_H_
#define FOLIO_KERNELS_CPU_FAST_QUANTIZED_PRODUCTS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/prompt_gemm.h"
#include "kernels/cpu/fast/quantized_kernels.h"
#include "kernels/cpu/fast/scratch.h"
#include "kernels/cpu/fast/strip_weights.h"
#include "kernels/threads/thread_pool.h"
#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

// One call at a time, because it keeps scratch memory. Tables and `prompts` outlive it.
class QuantizedProducts {
 public:
  // `prompts` may be null.
  QuantizedProducts(const KernelTable& kernels, const QuantizedTable& quantized,
                    PromptGemm* prompts)
      : kernels_(kernels), quantized_(quantized), prompts_(prompts) {}

  // As CpuOps::Linear and CpuOps::GatedLinear, with dense `in`.
  void Linear(ThreadPool& pool, RowSplit rows, Matrix<const bf16> in, const StripWeights& weight,
              Matrix<float> out, bool accumulate);
  void Gated(ThreadPool& pool, RowSplit rows, Matrix<const bf16> in, const StripWeights& weight,
             Matrix<bf16> out);

 private:
  // Takes [rows], stride, values of `count` strips from number `strip` on, for rows from `row` on.
  using Take = absl::FunctionRef<void(uint32_t row, uint32_t rows, size_t strip, size_t count,
                                      const float* values, size_t stride)>;

  void Multiply(ThreadPool& pool, RowSplit rows, const Matrix<const bf16>& in,
                const StripWeights& weight, Take take);
  void MultiplyQuantized(ThreadPool& pool, const Matrix<const bf16>& in, const StripWeights& weight,
                         Take take);
  void MultiplyUnpacked(ThreadPool& pool, const Matrix<const bf16>& in, const StripWeights& weight,
                        Take take);
  void Quantize(ThreadPool& pool, const Matrix<const bf16>& in);
  // Rows of the group that begins at `row` of `rows` rows: 2^(the result).
  uint32_t GroupSize(uint32_t row, uint32_t rows) const;

  const KernelTable& kernels_;
  const QuantizedTable& quantized_;
  PromptGemm* const prompts_;
  Scratch<ActivationBlock> activations_;
  std::vector<Scratch<float>> results_;  // of each thread
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_QUANTIZED_PRODUCTS_H_
