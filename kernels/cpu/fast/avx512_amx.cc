#include <immintrin.h>

#include <type_traits>

#include "kernels/cpu/fast/kernels.h"

namespace folio::kernels::cpu::fast {
namespace {

// Each of these files uses the ones before it.
// clang-format off
#include "kernels/cpu/fast/vec_avx512.inl.h"
#include "kernels/cpu/fast/gemm.inl.h"
#include "kernels/cpu/fast/attention.inl.h"
#include "kernels/cpu/fast/amx_tiles.inl.h"
#include "kernels/cpu/fast/amx_attention.inl.h"
#include "kernels/cpu/fast/scores.inl.h"
#include "kernels/cpu/fast/amx_scores.inl.h"
// clang-format on

}  // namespace

const KernelTable& Avx512AmxKernels() {
  // PromptGemm chooses its products by the table's name.
  static const KernelTable table = [] {
    KernelTable made = Avx512Bf16Kernels();
    made.name = "avx512_amx";
    made.flash = MatrixFlashKernel<Avx512Bf16Vec>;
    made.keep_shares = MatrixKeepSharesKernel<Avx512Bf16Vec>;
    return made;
  }();
  return table;
}

}  // namespace folio::kernels::cpu::fast
