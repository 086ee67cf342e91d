// SelectKernels finds the tables of kernels for the instruction sets that this CPU has. Any thread
// may call it.
#ifndef FOLIO_KERNELS_CPU_FAST_SELECT_H_
#define FOLIO_KERNELS_CPU_FAST_SELECT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/quantized_kernels.h"

namespace folio::kernels::cpu::fast {

// The kernels of one family, whose tables have equally many lanes.
struct FamilyKernels {
  absl::string_view name;
  const KernelTable* table;
  const QuantizedTable* quantized;
};

// The fastest family this CPU can run for "auto", or the named one. INVALID_ARGUMENT lists the
// known names; FAILED_PRECONDITION names the CPU feature that is missing.
absl::StatusOr<FamilyKernels> SelectKernels(absl::string_view name);

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_SELECT_H_
