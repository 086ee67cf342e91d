#include <immintrin.h>

#include "kernels/cpu/fast/kernels.h"

namespace folio::kernels::cpu::fast {
namespace {

// In this order: the table of kernels uses the vector type.
// clang-format off
#include "kernels/cpu/fast/vec_avx512.inl.h"
#include "kernels/cpu/fast/table.inl.h"
// clang-format on

constexpr KernelTable kTable = MakeTable<Avx512Bf16Vec>("avx512_bf16");

}  // namespace

const KernelTable& Avx512Bf16Kernels() { return kTable; }

}  // namespace folio::kernels::cpu::fast
