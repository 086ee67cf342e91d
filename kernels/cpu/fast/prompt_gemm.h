// PromptGemm computes products of prompt rows with oneDNN, which uses matrix units (AMX) that our
// own kernels do not, and comes nearer to the peak on AVX-512 with bf16. It reads the same panels
// as our own kernels. For 16 lanes and a k of whole 32s they are oneDNN's blocked layout
// BA16a32b2a, so that weights are in memory once.
//
// Batch invariance holds because rows go in blocks, the last one filled up to a step, and sums
// along k do not depend on how many rows a block has. tests/kernels compares the bits.
#ifndef FOLIO_KERNELS_CPU_FAST_PROMPT_GEMM_H_
#define FOLIO_KERNELS_CPU_FAST_PROMPT_GEMM_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/panel_weights.h"
#include "kernels/threads/thread_pool.h"
#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

// Neighbouring panels of 32 columns.
struct Panels {
  const uint32_t* words = nullptr;
  uint32_t count = 0;
  uint32_t k = 0;
};

// Rows of the input times neighbouring panels. `values` are [rows], stride.
struct PanelProduct {
  uint32_t row = 0, rows = 0;
  uint32_t panel = 0, panels = 0;
  const float* values = nullptr;
  uint32_t stride = 0;
};

// One call at a time.
class PromptGemm {
 public:
  // Null where oneDNN has no better kernel for this CPU than its reference.
  static std::unique_ptr<PromptGemm> Make(const KernelTable& kernels);
  virtual ~PromptGemm() = default;

  // Panels of one product: weights of a block stay in the second-level cache.
  static constexpr uint32_t kPanels = 12;
  static constexpr uint32_t kRowBlock = 128;  // rows of one product

  virtual bool Serves(uint32_t panels, uint32_t k) = 0;
  // Calls `take` for all parts of in * panels^T, which a thread of the pool has just computed, with
  // dense `in` [rows, k]. Precondition: Serves(panels.count, panels.k).
  virtual void Multiply(ThreadPool& pool, Matrix<const bf16> in, const Panels& panels,
                        absl::FunctionRef<void(const PanelProduct&)> take) = 0;
  // out = in * weight^T, or out += in * weight^T, on the same conditions.
  virtual void Linear(ThreadPool& pool, Matrix<const bf16> in, const PanelWeights& weight,
                      Matrix<float> out, bool accumulate) = 0;
  // out = activation(gate) * up for a gated weight.
  virtual void Gated(ThreadPool& pool, Matrix<const bf16> in, const PanelWeights& weight,
                     Matrix<bf16> out) = 0;
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_PROMPT_GEMM_H_
