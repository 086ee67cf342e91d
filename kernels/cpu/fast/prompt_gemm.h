// Products of prompt rows by oneDNN, which knows matrix units (AMX) that the own kernels do not,
// and on AVX-512 with bf16 gets nearer to the peak. It reads the same panels as the own kernels:
// for 16 lanes and a k of whole 32s they are oneDNN's blocked layout BA16a32b2a, so weights exist
// once.
//
// Row rule: rows go in blocks, the last one filled up to a step; sums along k do not depend on how
// many rows a block has. tests/kernels checks the bits.
#ifndef FOLIO_KERNELS_CPU_FAST_PROMPT_GEMM_H_
#define FOLIO_KERNELS_CPU_FAST_PROMPT_GEMM_H_

#include <memory>

#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/panel_weights.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

// One call at a time.
class PromptGemm {
 public:
  // Null where oneDNN has no better kernel for this CPU than its reference.
  static std::unique_ptr<PromptGemm> Make(const KernelTable& kernels);
  virtual ~PromptGemm() = default;

  virtual bool Serves(const PanelWeights& weight) = 0;
  // out = in * weight^T, or out += ...; in: [rows, k] dense. Precondition: Serves(weight).
  virtual void Linear(ThreadPool& pool, Matrix<const bf16> in, const PanelWeights& weight,
                      Matrix<float> out, bool accumulate) = 0;
  // out = silu(gate) * up for a gated weight.
  virtual void Gated(ThreadPool& pool, Matrix<const bf16> in, const PanelWeights& weight,
                     Matrix<bf16> out) = 0;
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_PROMPT_GEMM_H_
