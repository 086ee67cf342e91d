#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/quantized_kernels.h"

namespace folio::kernels::cpu::fast {
namespace {

// Each of these files uses the ones before it.
// clang-format off
#include "kernels/cpu/fast/vec_portable.inl.h"
#include "kernels/cpu/fast/bytes_portable.inl.h"
#include "kernels/cpu/fast/quantized.inl.h"
// clang-format on

constexpr QuantizedTable kTable = MakeQuantizedTable<PortableBytes>();

}  // namespace

const QuantizedTable& PortableQuantized() { return kTable; }

}  // namespace folio::kernels::cpu::fast
