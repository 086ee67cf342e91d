#include "tests/bench/machine_limits.h"

#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace folio::bench {
namespace {

using Lanes = uint64_t __attribute__((vector_size(64), aligned(64)));

uint64_t SumOf(const std::byte* data, size_t bytes) {
  const auto* lanes = reinterpret_cast<const Lanes*>(data);
  Lanes sums[4] = {};
  for (size_t i = 0; i + 4 <= bytes / sizeof(Lanes); i += 4) {
    for (int j = 0; j < 4; ++j) sums[j] += lanes[i + j];
  }
  const Lanes all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return all[0] ^ all[7];
}

#if defined(__x86_64__)

constexpr int kSteps = 200000;
constexpr int kChains = 16;  // independent accumulators: more than latency times width

__attribute__((target("avx512f,avx512bf16"))) float SpinBf16() {
  __m512 acc[kChains];
  for (auto& a : acc) a = _mm512_setzero_ps();
  __m512i x = _mm512_set1_epi32(0x3f803f80);
  for (int i = 0; i < kSteps; ++i) {
    for (auto& a : acc) a = _mm512_dpbf16_ps(a, (__m512bh)x, (__m512bh)x);
    asm volatile("" : "+v"(x));
  }
  float sum = 0;
  for (auto& a : acc) sum += _mm512_cvtss_f32(a);
  return sum;
}

__attribute__((target("avx2,fma"))) float SpinFma() {
  __m256 acc[kChains];
  for (auto& a : acc) a = _mm256_setzero_ps();
  __m256 x = _mm256_set1_ps(1.0f);
  for (int i = 0; i < kSteps; ++i) {
    for (auto& a : acc) a = _mm256_fmadd_ps(x, x, a);
    asm volatile("" : "+x"(x));
  }
  float sum = 0;
  for (auto& a : acc) sum += _mm256_cvtss_f32(a);
  return sum;
}

#endif

}  // namespace

double CpuSeconds() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

double ReadBandwidth(kernels::ThreadPool& pool, Stopwatch now) {
  constexpr size_t kPiece = size_t{1} << 20;
  constexpr int kPieces = 384;
  constexpr size_t kBytes = kPiece * kPieces;
  void* map = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return 0;
  madvise(map, kBytes, MADV_HUGEPAGE);
  auto* data = static_cast<std::byte*>(map);
  pool.ParallelFor(kPieces,
                   [&](int piece, int) { __builtin_memset(data + piece * kPiece, piece, kPiece); });
  std::atomic<uint64_t> sink{0};
  const auto read = [&] {
    pool.ParallelFor(kPieces,
                     [&](int piece, int) { sink += SumOf(data + piece * kPiece, kPiece); });
  };
  const double seconds = FastestSeconds(20, read, now);
  munmap(map, kBytes);
  return static_cast<double>(kBytes) / seconds;
}

double PeakFlops(kernels::ThreadPool& pool) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool bf16 = __builtin_cpu_supports("avx512bf16");
  if (!bf16 && !__builtin_cpu_supports("fma")) return 0;
  std::atomic<float> sink{0};
  const double seconds = FastestSeconds(20, [&] {
    pool.ParallelFor(pool.threads(), [&](int, int) { sink = bf16 ? SpinBf16() : SpinFma(); });
  });
  const double flops = double{kSteps} * kChains * (bf16 ? 64 : 16);
  return flops * pool.threads() / seconds;
#else
  return 0;
#endif
}

}  // namespace folio::bench
