#include "kernels/cpu/fast/select.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
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

// The answer of cpuid, zeros where the CPU does not know the leaf. Some compilers have no names in
// __builtin_cpu_supports for the bits that are asked for here.
struct Cpuid {
  explicit Cpuid(uint32_t leaf, uint32_t subleaf = 0) {
    if (__get_cpuid_count(leaf, subleaf, &a, &b, &c, &d) == 0) a = b = c = d = 0;
  }
  uint32_t a = 0, b = 0, c = 0, d = 0;
};
bool HasF16c() { return (Cpuid(1).c >> 29 & 1u) != 0; }
bool HasAvxVnni() { return (Cpuid(7, 1).a >> 4 & 1u) != 0; }
bool HasAmxTile() { return (Cpuid(7).d >> 24 & 1u) != 0; }
bool HasAmxBf16() { return (Cpuid(7).d >> 22 & 1u) != 0; }

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

// Matrix units have 8 KiB of state a thread, so that Linux asks a process to say that it wants
// them. The answer holds for all of its threads, and asking again changes nothing.
bool MayUseMatrixUnits() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

const char* MissingForAmx() {
  if (const char* missing = MissingForAvx512Bf16()) return missing;
  if (!HasAmxTile()) return "amx_tile";
  if (!HasAmxBf16()) return "amx_bf16";
  return MayUseMatrixUnits() ? nullptr : "amx_tile, which the system does not permit";
}

#endif

// Best first.
const Family kFamilies[] = {
#if defined(__x86_64__)
    {"avx512_amx", Avx512AmxKernels, Avx512Bf16Quantized, MissingForAmx},
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
    absl::StrAppend(&known, ", ", family.name);
    // Other families are not asked, because one of them asks the system for more.
    if (name != family.name && name != "auto") continue;
    const char* missing = family.missing();
    if (missing == nullptr) {
      return FamilyKernels{family.name, &family.table(), &family.quantized()};
    }
    if (name == family.name) {
      return absl::FailedPreconditionError(
          absl::StrCat("kernel family ", name, " needs the CPU feature ", missing));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown kernel family \"", name, "\"; known: ", known));
}

}  // namespace folio::kernels::cpu::fast
