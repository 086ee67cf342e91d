// SelectKernels finds the KernelTable for the instruction sets that this CPU has. Any thread may
// call it.
#ifndef FOLIO_KERNELS_CPU_FAST_SELECT_H_
#define FOLIO_KERNELS_CPU_FAST_SELECT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cpu/fast/kernels.h"

namespace folio::kernels::cpu::fast {

// The widest table this CPU can run for "auto", or the named one. INVALID_ARGUMENT lists the known
// names; FAILED_PRECONDITION names the CPU feature that is missing.
absl::StatusOr<const KernelTable*> SelectKernels(absl::string_view name);

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_SELECT_H_
