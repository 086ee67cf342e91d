// DivUp is a quotient that is rounded up.
#ifndef FOLIO_KERNELS_CPU_FAST_DIV_UP_H_
#define FOLIO_KERNELS_CPU_FAST_DIV_UP_H_

#include <cstdint>

namespace folio::kernels::cpu::fast {

// Always inlined, because files that are compiled for one instruction set use it too, and must not
// bring the linker a function that other processors cannot run.
[[gnu::always_inline]] constexpr uint32_t DivUp(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_DIV_UP_H_
