#include "kernels/cpu/fast/kernels.h"

namespace folio::kernels::cpu::fast {
namespace {

// In this order: each uses the one before it.
// clang-format off
#include "kernels/cpu/fast/vec_portable.inl.h"
#include "kernels/cpu/fast/gemm.inl.h"
#include "kernels/cpu/fast/rows.inl.h"
#include "kernels/cpu/fast/attention.inl.h"
#include "kernels/cpu/fast/decode.inl.h"
#include "kernels/cpu/fast/scores.inl.h"
#include "kernels/cpu/fast/unrotated.inl.h"
#include "kernels/cpu/fast/table.inl.h"
// clang-format on

constexpr KernelTable kTable = MakeTable<PortableVec>("portable");

}  // namespace

const KernelTable& PortableKernels() { return kTable; }

}  // namespace folio::kernels::cpu::fast
