#include "kernels/cpu/plain_loops.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#define FOLIO_INLINE inline __attribute__((always_inline))

namespace folio::kernels::cpu::plain {
namespace {

// So many sums are made side by side, whatever the width of the processor's vectors.
constexpr size_t kLanes = 16;

// Vectors of W numbers. W is what a register holds: compilers keep wider ones in memory.
template <size_t W>
struct Of {
  typedef float Floats __attribute__((vector_size(W * sizeof(float))));
  typedef uint32_t Bits __attribute__((vector_size(W * sizeof(uint32_t))));
  typedef uint16_t Halves __attribute__((vector_size(W * sizeof(uint16_t))));
  static constexpr size_t kParts = kLanes / W;
};

// Vectors are returned through a reference: their calling convention depends on the instruction
// set, and an inlined reference costs nothing.
template <size_t W>
FOLIO_INLINE void Load(const float* from, typename Of<W>::Floats& lanes) {
  std::memcpy(&lanes, from, sizeof(lanes));
}

template <size_t W>
FOLIO_INLINE void Load(const bf16* from, typename Of<W>::Floats& lanes) {
  typename Of<W>::Halves half;
  std::memcpy(&half, from, sizeof(half));
  const typename Of<W>::Bits bits = __builtin_convertvector(half, typename Of<W>::Bits) << 16;
  std::memcpy(&lanes, &bits, sizeof(lanes));
}

// The rest of a row, filled up with zeros to whole lanes.
template <typename T>
struct Rest {
  T lanes[kLanes] = {};

  Rest(const T* from, size_t count) {
    std::memcpy(static_cast<void*>(lanes), from, count * sizeof(T));
  }
};

FOLIO_INLINE float AddHalves(float* sum) {
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sum[i] += sum[i + half];
  }
  return sum[0];
}

// sums[i][j] += x[i][k] * w[j][k] for the kLanes numbers k that begin at `x` and `w`.
template <size_t W, size_t R, size_t N>
FOLIO_INLINE void AddProducts(const float* const (&x)[R], const bf16* const (&w)[N],
                              typename Of<W>::Floats (&sums)[R][N][Of<W>::kParts]) {
  for (size_t part = 0; part < Of<W>::kParts; ++part) {
    typename Of<W>::Floats weights[N];
    for (size_t j = 0; j < N; ++j) Load<W>(w[j] + part * W, weights[j]);
    for (size_t i = 0; i < R; ++i) {
      typename Of<W>::Floats values;
      Load<W>(x[i] + part * W, values);
      for (size_t j = 0; j < N; ++j) sums[i][j][part] += values * weights[j];
    }
  }
}

// R rows against N weight rows at once, so that every load is used several times.
template <size_t W, size_t R, size_t N>
FOLIO_INLINE void DotTile(const Matrix<const float>& in, size_t r, const Matrix<const bf16>& weight,
                          size_t n, const Matrix<float>& out) {
  typename Of<W>::Floats sums[R][N][Of<W>::kParts] = {};
  const float* x[R];
  const bf16* w[N];
  for (size_t i = 0; i < R; ++i) x[i] = in.row(r + i);
  for (size_t j = 0; j < N; ++j) w[j] = weight.row(n + j);
  const size_t whole = in.cols - in.cols % kLanes;
  for (size_t k = 0; k < whole; k += kLanes) {
    AddProducts<W, R, N>(x, w, sums);
    for (size_t i = 0; i < R; ++i) x[i] += kLanes;
    for (size_t j = 0; j < N; ++j) w[j] += kLanes;
  }
  if (const size_t rest = in.cols - whole; rest > 0) {
    for (size_t j = 0; j < N; ++j) {
      const Rest<bf16> last_weights(w[j], rest);
      for (size_t i = 0; i < R; ++i) {
        const Rest<float> last_values(x[i], rest);
        const float* const value[1] = {last_values.lanes};
        const bf16* const one[1] = {last_weights.lanes};
        typename Of<W>::Floats sum[1][1][Of<W>::kParts];
        std::memcpy(&sum, &sums[i][j], sizeof(sum));
        AddProducts<W, 1, 1>(value, one, sum);
        std::memcpy(&sums[i][j], &sum, sizeof(sum));
      }
    }
  }
  for (size_t i = 0; i < R; ++i) {
    for (size_t j = 0; j < N; ++j) {
      float lanes[kLanes];
      std::memcpy(lanes, &sums[i][j], sizeof(lanes));
      out.row(r + i)[n + j] = AddHalves(lanes);
    }
  }
}

template <size_t W, size_t R, size_t N>
FOLIO_INLINE void DotRows(const Matrix<const float>& in, size_t r, const Matrix<const bf16>& weight,
                          const Matrix<float>& out) {
  size_t n = 0;
  for (; n + N <= weight.rows; n += N) DotTile<W, R, N>(in, r, weight, n, out);
  for (; n < weight.rows; ++n) DotTile<W, R, 1>(in, r, weight, n, out);
}

// R rows at a time from row r on, then fewer. `Tiles` sums of kLanes fit into the registers.
template <size_t W, size_t R, size_t Tiles>
FOLIO_INLINE void Dots(const Matrix<const float>& in, size_t r, const Matrix<const bf16>& weight,
                       const Matrix<float>& out) {
  constexpr size_t kColumns = std::min(Tiles / R, size_t{4});
  for (; r + R <= in.rows; r += R) DotRows<W, R, kColumns>(in, r, weight, out);
  if constexpr (R > 1) Dots<W, R / 2, Tiles>(in, r, weight, out);
}

template <size_t W, size_t R>
FOLIO_INLINE void WeightedSumTile(const Matrix<const float>& share, size_t r,
                                  const Matrix<const bf16>& value, const Matrix<float>& out) {
  using Floats = typename Of<W>::Floats;
  size_t d = 0;
  for (; d + W <= value.cols; d += W) {
    Floats sums[R];
    for (size_t i = 0; i < R; ++i) Load<W>(out.row(r + i) + d, sums[i]);
    for (size_t t = 0; t < value.rows; ++t) {
      Floats v;
      Load<W>(value.row(t) + d, v);
      for (size_t i = 0; i < R; ++i) sums[i] += v * share.row(r + i)[t];
    }
    for (size_t i = 0; i < R; ++i) std::memcpy(out.row(r + i) + d, &sums[i], sizeof(Floats));
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

template <size_t W>
FOLIO_INLINE void WeightedSums(const Matrix<const float>& share, const Matrix<const bf16>& value,
                               const Matrix<float>& out) {
  size_t r = 0;
  for (; r + 3 <= share.rows; r += 3) WeightedSumTile<W, 3>(share, r, value, out);
  for (; r < share.rows; ++r) WeightedSumTile<W, 1>(share, r, value, out);
}

template <size_t W>
FOLIO_INLINE float SumOfSquares(const float* x, size_t count) {
  typename Of<W>::Floats sums[Of<W>::kParts] = {};
  const auto add = [&](const float* from) __attribute__((always_inline)) {
    for (size_t part = 0; part < Of<W>::kParts; ++part) {
      typename Of<W>::Floats v;
      Load<W>(from + part * W, v);
      sums[part] += v * v;
    }
  };
  const size_t whole = count - count % kLanes;
  for (size_t i = 0; i < whole; i += kLanes) add(x + i);
  if (whole < count) {
    const Rest<float> last(x + whole, count - whole);
    add(last.lanes);
  }
  float lanes[kLanes];
  std::memcpy(lanes, sums, sizeof(lanes));
  return AddHalves(lanes);
}

template <size_t W>
FOLIO_INLINE float NormFactor(const float* x, float eps, size_t count) {
  return 1 / std::sqrt(SumOfSquares<W>(x, count) / static_cast<float>(count) + eps);
}

template <size_t W>
FOLIO_INLINE void Norm(float* x, const float* weight, float eps, size_t count) {
  const float factor = NormFactor<W>(x, eps, count);
  for (size_t i = 0; i < count; ++i) x[i] *= factor * weight[i];
}

template <size_t W>
FOLIO_INLINE void AddNormed(const float* x, const float* weight, float eps, size_t count,
                            float* __restrict to) {
  const float factor = NormFactor<W>(x, eps, count);
  for (size_t i = 0; i < count; ++i) to[i] += x[i] * (factor * weight[i]);
}

// One copy of the loops. Many rows at once spare more than many weight rows, because a weight
// must be widened.
// NOLINTBEGIN(bugprone-macro-parentheses): attributes take no parentheses.
#define FOLIO_PLAIN_LOOPS(name, attribute, width, rows, tiles)                                   \
  namespace name {                                                                               \
  attribute void DotsFn(Matrix<const float> in, Matrix<const bf16> weight, Matrix<float> out) {  \
    Dots<width, rows, tiles>(in, 0, weight, out);                                                \
  }                                                                                              \
  attribute void WeightedSumsFn(Matrix<const float> share, Matrix<const bf16> value,             \
                                Matrix<float> out) {                                             \
    WeightedSums<width>(share, value, out);                                                      \
  }                                                                                              \
  attribute float SumOfSquaresFn(const float* x, size_t count) {                                 \
    return SumOfSquares<width>(x, count);                                                        \
  }                                                                                              \
  attribute void NormFn(float* x, const float* weight, float eps, size_t count) {                \
    Norm<width>(x, weight, eps, count);                                                          \
  }                                                                                              \
  attribute void AddNormedFn(const float* x, const float* weight, float eps, size_t count,       \
                             float* to) {                                                        \
    AddNormed<width>(x, weight, eps, count, to);                                                 \
  }                                                                                              \
  constexpr Loops kLoops = {#name, DotsFn, WeightedSumsFn, SumOfSquaresFn, NormFn, AddNormedFn}; \
  }
// NOLINTEND(bugprone-macro-parentheses)

FOLIO_PLAIN_LOOPS(base, , 4, 2, 2)
#if defined(__x86_64__)
FOLIO_PLAIN_LOOPS(avx2, __attribute__((target("avx2"))), 8, 6, 6)
FOLIO_PLAIN_LOOPS(avx512, __attribute__((target("avx512f,avx512bw,avx512vl"))), 16, 4, 16)
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
