#include "kernels/cpu/plain_loops.h"

#include <cstdint>
#include <cstring>
#include <vector>

#define FOLIO_INLINE inline __attribute__((always_inline))

namespace folio::kernels::cpu::plain {
namespace {

constexpr size_t kLanes = 16;

// The compiler splits its own vectors into those of the instruction set.
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4)));
typedef uint32_t WideBits __attribute__((vector_size(kLanes * sizeof(uint32_t)), aligned(4)));
typedef uint16_t HalfBits __attribute__((vector_size(kLanes * sizeof(uint16_t)), aligned(2)));

// Vectors are returned through a reference: their calling convention depends on the instruction
// set, and an inlined reference costs nothing.
FOLIO_INLINE void Load(const float* from, Lanes& lanes) {
  std::memcpy(&lanes, from, sizeof(Lanes));
}

FOLIO_INLINE void Widen(const HalfBits& half, Lanes& lanes) {
  WideBits bits = __builtin_convertvector(half, WideBits) << 16;
  std::memcpy(&lanes, &bits, sizeof(Lanes));
}

FOLIO_INLINE void Load(const bf16* from, Lanes& lanes) {
  HalfBits half;
  std::memcpy(&half, from, sizeof(half));
  Widen(half, lanes);
}

// The first `count` < 16 elements; the other lanes are zero.
FOLIO_INLINE void LoadPart(const float* from, size_t count, Lanes& lanes) {
  lanes = Lanes{};
  std::memcpy(&lanes, from, count * sizeof(float));
}

FOLIO_INLINE void LoadPart(const bf16* from, size_t count, Lanes& lanes) {
  HalfBits half = {};
  std::memcpy(&half, from, count * sizeof(bf16));
  Widen(half, lanes);
}

FOLIO_INLINE float AddHalves(const Lanes& lanes) {
  float sum[kLanes];
  std::memcpy(sum, &lanes, sizeof(sum));
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sum[i] += sum[i + half];
  }
  return sum[0];
}

// R rows against N weight rows at once, so that every load is used several times.
template <size_t R, size_t N>
FOLIO_INLINE void DotTile(const Matrix<const float>& in, size_t r, const Matrix<const bf16>& weight,
                          size_t n, const Matrix<float>& out) {
  Lanes sums[R][N] = {};
  const size_t whole = in.cols - in.cols % kLanes;
  const auto add = [&](const Lanes(&x)[R], const Lanes(&w)[N]) __attribute__((always_inline)) {
    for (size_t i = 0; i < R; ++i) {
      for (size_t j = 0; j < N; ++j) sums[i][j] += x[i] * w[j];
    }
  };
  Lanes x[R];
  Lanes w[N];
  for (size_t k = 0; k < whole; k += kLanes) {
    for (size_t i = 0; i < R; ++i) Load(in.row(r + i) + k, x[i]);
    for (size_t j = 0; j < N; ++j) Load(weight.row(n + j) + k, w[j]);
    add(x, w);
  }
  if (const size_t rest = in.cols - whole; rest > 0) {
    for (size_t i = 0; i < R; ++i) LoadPart(in.row(r + i) + whole, rest, x[i]);
    for (size_t j = 0; j < N; ++j) LoadPart(weight.row(n + j) + whole, rest, w[j]);
    add(x, w);
  }
  for (size_t i = 0; i < R; ++i) {
    for (size_t j = 0; j < N; ++j) out.row(r + i)[n + j] = AddHalves(sums[i][j]);
  }
}

template <size_t R, size_t N>
FOLIO_INLINE void DotRows(const Matrix<const float>& in, size_t r, const Matrix<const bf16>& weight,
                          const Matrix<float>& out) {
  size_t n = 0;
  for (; n + N <= weight.rows; n += N) DotTile<R, N>(in, r, weight, n, out);
  for (; n < weight.rows; ++n) DotTile<R, 1>(in, r, weight, n, out);
}

template <size_t R, size_t N>
FOLIO_INLINE void Dots(const Matrix<const float>& in, const Matrix<const bf16>& weight,
                       const Matrix<float>& out) {
  size_t r = 0;
  for (; r + R <= in.rows; r += R) DotRows<R, N>(in, r, weight, out);
  if constexpr (R > 3) {
    if (in.rows - r == 3) return DotRows<3, N>(in, r, weight, out);
  }
  if constexpr (R > 2) {
    if (in.rows - r == 2) return DotRows<2, N>(in, r, weight, out);
  }
  if (in.rows - r == 1) DotRows<1, N>(in, r, weight, out);
}

template <size_t R>
FOLIO_INLINE void WeightedSumTile(const Matrix<const float>& share, size_t r,
                                  const Matrix<const bf16>& value, const Matrix<float>& out) {
  size_t d = 0;
  for (; d + kLanes <= value.cols; d += kLanes) {
    Lanes sums[R];
    for (size_t i = 0; i < R; ++i) Load(out.row(r + i) + d, sums[i]);
    for (size_t t = 0; t < value.rows; ++t) {
      Lanes v;
      Load(value.row(t) + d, v);
      for (size_t i = 0; i < R; ++i) sums[i] += v * share.row(r + i)[t];
    }
    for (size_t i = 0; i < R; ++i) std::memcpy(out.row(r + i) + d, &sums[i], sizeof(Lanes));
  }
  for (; d < value.cols; ++d) {
    for (size_t i = 0; i < R; ++i) {
      float sum = out.row(r + i)[d];
      for (size_t t = 0; t < value.rows; ++t) {
        sum += value.row(t)[d].ToFloat() * share.row(r + i)[t];
      }
      out.row(r + i)[d] = sum;
    }
  }
}

FOLIO_INLINE void WeightedSums(const Matrix<const float>& share, const Matrix<const bf16>& value,
                               const Matrix<float>& out) {
  size_t r = 0;
  for (; r + 3 <= share.rows; r += 3) WeightedSumTile<3>(share, r, value, out);
  for (; r < share.rows; ++r) WeightedSumTile<1>(share, r, value, out);
}

FOLIO_INLINE float SumOfSquares(const float* x, size_t count) {
  Lanes sum = {};
  Lanes v;
  const size_t whole = count - count % kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    Load(x + i, v);
    sum += v * v;
  }
  if (whole < count) {
    LoadPart(x + whole, count - whole, v);
    sum += v * v;
  }
  return AddHalves(sum);
}

// One copy of the three loops. Tiles are as large as the registers allow.
// NOLINTBEGIN(bugprone-macro-parentheses): attributes take no parentheses.
#define FOLIO_PLAIN_LOOPS(name, attribute, rows, columns)                                         \
  namespace name {                                                                                \
  attribute void DotsFn(Matrix<const float> in, Matrix<const bf16> weight, Matrix<float> out) {   \
    Dots<rows, columns>(in, weight, out);                                                         \
  }                                                                                               \
  attribute void WeightedSumsFn(Matrix<const float> share, Matrix<const bf16> value,              \
                                Matrix<float> out) {                                              \
    WeightedSums(share, value, out);                                                              \
  }                                                                                               \
  attribute float SumOfSquaresFn(const float* x, size_t count) { return SumOfSquares(x, count); } \
  constexpr Loops kLoops = {#name, DotsFn, WeightedSumsFn, SumOfSquaresFn};                       \
  }
// NOLINTEND(bugprone-macro-parentheses)

FOLIO_PLAIN_LOOPS(base, , 2, 1)
#if defined(__x86_64__)
FOLIO_PLAIN_LOOPS(avx2, __attribute__((target("avx2"))), 3, 2)
FOLIO_PLAIN_LOOPS(avx512, __attribute__((target("avx512f,avx512bw,avx512vl"))), 4, 4)
#endif

std::vector<Loops> Detect() {
  std::vector<Loops> loops;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    loops.push_back(avx512::kLoops);
  }
  if (__builtin_cpu_supports("avx2")) loops.push_back(avx2::kLoops);
#endif
  loops.push_back(base::kLoops);
  return loops;
}

}  // namespace

const std::vector<Loops>& SupportedLoops() {
  static const std::vector<Loops> loops = Detect();
  return loops;
}

}  // namespace folio::kernels::cpu::plain
