// PromptGemm computes products of prompt rows on CPUs with bf16 arithmetic, where other kernels
// than those of decode rows come nearer to the peak. It has one way for CPUs with matrix units
// (amx_gemm.cc) and one for the others, by oneDNN (onednn_gemm.cc). Both read the panels of the
// other kernels, so that weights are in memory once.
//
// Batch invariance holds because sums along k do not depend on how many rows there are.
// tests/kernels compares the bits.
#ifndef FOLIO_KERNELS_CPU_FAST_PROMPT_GEMM_H_
#define FOLIO_KERNELS_CPU_FAST_PROMPT_GEMM_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/panel_weights.h"
#include "kernels/threads/thread_pool.h"
#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

inline constexpr uint32_t kPanelColumns = 32;

// The number of tasks that a product is cut into. Few and long ones read weights best, but a
// disturbed core needs some to be left for the others.
inline uint32_t TasksFor(const ThreadPool& pool) {
  constexpr uint32_t kTasksPerThread = 4;
  return pool.threads() == 1 ? 1 : static_cast<uint32_t>(pool.threads()) * kTasksPerThread;
}

// A part of neighbouring panels, each [k / 2][32][2] bf16.
struct PanelBlock {
  const uint32_t* words = nullptr;
  size_t stride = 0;  // words from one panel to the next
};

// A PanelSource has the panels of a product. Any thread may read them.
class PanelSource {
 public:
  virtual ~PanelSource() = default;
  virtual uint32_t panels() const = 0;
  virtual uint32_t k() const = 0;
  // `count` panels from number `first` on, for k in [begin, end). They are where the source holds
  // them, or are made in `space`, one after the other, which has room for them. `begin` and `end`
  // are multiples of 256, or the ends of k.
  virtual PanelBlock Read(uint32_t first, uint32_t count, uint32_t begin, uint32_t end,
                          uint32_t* space) const = 0;
  // Panel `first` from `begin` on, where it is held, or null.
  virtual const uint32_t* Held(uint32_t first, uint32_t begin) const = 0;
};

// Rows of the input times neighbouring panels. `values` are [rows], stride.
struct PanelProduct {
  uint32_t row = 0, rows = 0;
  uint32_t panel = 0, panels = 0;
  const float* values = nullptr;
  size_t stride = 0;
};

// One call at a time.
class PromptGemm {
 public:
  // Null where there is nothing better for this CPU than the kernels of decode rows.
  static std::unique_ptr<PromptGemm> Make(const KernelTable& kernels);
  virtual ~PromptGemm() = default;

  virtual bool Serves(uint32_t panels, uint32_t k) = 0;
  // Calls `take` for all parts of in * panels^T, which a thread of the pool has just computed, with
  // dense `in` [rows, k]. Precondition: Serves(source.panels(), source.k()).
  virtual void Multiply(ThreadPool& pool, Matrix<const bf16> in, const PanelSource& source,
                        absl::FunctionRef<void(const PanelProduct&)> take) = 0;
  // out = in * weight^T, or out += in * weight^T, on the same conditions.
  void Linear(ThreadPool& pool, Matrix<const bf16> in, const PanelWeights& weight,
              Matrix<float> out, bool accumulate);
  // out = activation(gate) * up for a gated weight.
  void Gated(ThreadPool& pool, Matrix<const bf16> in, const PanelWeights& weight, Matrix<bf16> out);

 protected:
  explicit PromptGemm(const KernelTable& kernels) : kernels_(kernels) {}

 private:
  const KernelTable& kernels_;
};

// The ways of Make. That of oneDNN is null where it has nothing better than its reference.
std::unique_ptr<PromptGemm> MakeOneDnnGemm(const KernelTable& kernels);
#if defined(__x86_64__)
std::unique_ptr<PromptGemm> MakeAmxGemm(const KernelTable& kernels);
#endif

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_PROMPT_GEMM_H_
