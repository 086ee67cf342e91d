#include "kernels/cpu/fast/select.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace folio::kernels::cpu::fast {
namespace {

struct Family {
  absl::string_view name;
  const KernelTable& (*table)();
  const char* (*missing)();  // a CPU feature, or null
};

#if defined(__x86_64__)

const char* MissingForAvx2() {
  if (!__builtin_cpu_supports("avx2")) return "avx2";
  if (!__builtin_cpu_supports("fma")) return "fma";
  return nullptr;
}

const char* MissingForAvx512() {
  if (const char* missing = MissingForAvx2()) return missing;
  if (!__builtin_cpu_supports("avx512f")) return "avx512f";
  if (!__builtin_cpu_supports("avx512bw")) return "avx512bw";
  if (!__builtin_cpu_supports("avx512dq")) return "avx512dq";
  if (!__builtin_cpu_supports("avx512vl")) return "avx512vl";
  return nullptr;
}

const char* MissingForAvx512Bf16() {
  if (const char* missing = MissingForAvx512()) return missing;
  if (!__builtin_cpu_supports("avx512bf16")) return "avx512_bf16";
  return nullptr;
}

#endif

// Best first.
const Family kFamilies[] = {
#if defined(__x86_64__)
    {"avx512_bf16", Avx512Bf16Kernels, MissingForAvx512Bf16},
    {"avx512", Avx512Kernels, MissingForAvx512},
    {"avx2", Avx2Kernels, MissingForAvx2},
#endif
    {"portable", PortableKernels, [] { return static_cast<const char*>(nullptr); }},
};

}  // namespace

absl::StatusOr<const KernelTable*> SelectKernels(absl::string_view name) {
  std::string known = "auto";
  for (const Family& family : kFamilies) {
    const char* missing = family.missing();
    if (name == "auto" && missing == nullptr) return &family.table();
    if (name == family.name) {
      if (missing == nullptr) return &family.table();
      return absl::FailedPreconditionError(
          absl::StrCat("kernel family ", name, " needs the CPU feature ", missing));
    }
    absl::StrAppend(&known, ", ", family.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown kernel family \"", name, "\"; known: ", known));
}

}  // namespace folio::kernels::cpu::fast
