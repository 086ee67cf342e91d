#include "kernels/cpu/fast/kernels.h"

namespace folio::kernels::cpu::fast {
namespace {

// In this order: the table of kernels uses the vector type.
// clang-format off
#include "kernels/cpu/fast/vec_portable.inl.h"
#include "kernels/cpu/fast/table.inl.h"
// clang-format on

constexpr KernelTable kTable = MakeTable<PortableVec>("portable");

}  // namespace

const KernelTable& PortableKernels() { return kTable; }

}  // namespace folio::kernels::cpu::fast
