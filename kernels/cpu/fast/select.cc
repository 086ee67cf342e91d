#include "kernels/cpu/fast/select.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace folio::kernels::cpu::fast {
namespace {

struct Family {
  absl::string_view name;
  const KernelTable& (*table)();
  const QuantizedTable& (*quantized)();
  const char* (*missing)();  // a CPU feature, or null
};

#if defined(__x86_64__)

// Bits of cpuid for which some compilers have no name in __builtin_cpu_supports.
bool HasF16c() {
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1u) != 0;
}
bool HasAvxVnni() {
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1u) != 0;
}

const char* MissingForAvx2() {
  if (!__builtin_cpu_supports("avx2")) return "avx2";
  if (!__builtin_cpu_supports("fma")) return "fma";
  if (!HasF16c()) return "f16c";
  return nullptr;
}

const char* MissingForAvxVnni() {
  if (const char* missing = MissingForAvx2()) return missing;
  return HasAvxVnni() ? nullptr : "avx_vnni";
}

const char* MissingForAvx512() {
  if (const char* missing = MissingForAvx2()) return missing;
  if (!__builtin_cpu_supports("avx512f")) return "avx512f";
  if (!__builtin_cpu_supports("avx512bw")) return "avx512bw";
  if (!__builtin_cpu_supports("avx512dq")) return "avx512dq";
  if (!__builtin_cpu_supports("avx512vl")) return "avx512vl";
  return nullptr;
}

const char* MissingForAvx512Vnni() {
  if (const char* missing = MissingForAvx512()) return missing;
  if (!__builtin_cpu_supports("avx512vnni")) return "avx512_vnni";
  return nullptr;
}

const char* MissingForAvx512Bf16() {
  if (const char* missing = MissingForAvx512Vnni()) return missing;
  if (!__builtin_cpu_supports("avx512bf16")) return "avx512_bf16";
  return nullptr;
}

#endif

// Best first.
const Family kFamilies[] = {
#if defined(__x86_64__)
    {"avx512_bf16", Avx512Bf16Kernels, Avx512Bf16Quantized, MissingForAvx512Bf16},
    {"avx512_vnni", Avx512Kernels, Avx512VnniQuantized, MissingForAvx512Vnni},
    {"avx512", Avx512Kernels, Avx512Quantized, MissingForAvx512},
    {"avx_vnni", Avx2Kernels, AvxVnniQuantized, MissingForAvxVnni},
    {"avx2", Avx2Kernels, Avx2Quantized, MissingForAvx2},
#endif
    {"portable", PortableKernels, PortableQuantized,
     [] { return static_cast<const char*>(nullptr); }},
};

}  // namespace

absl::StatusOr<FamilyKernels> SelectKernels(absl::string_view name) {
  std::string known = "auto";
  for (const Family& family : kFamilies) {
    const char* missing = family.missing();
    const bool wanted = name == family.name;
    if (missing == nullptr && (wanted || name == "auto")) {
      return FamilyKernels{family.name, &family.table(), &family.quantized()};
    }
    if (wanted) {
      return absl::FailedPreconditionError(
          absl::StrCat("kernel family ", name, " needs the CPU feature ", missing));
    }
    absl::StrAppend(&known, ", ", family.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown kernel family \"", name, "\"; known: ", known));
}

}  // namespace folio::kernels::cpu::fast
