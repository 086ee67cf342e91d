// This header loads quantised values in the order of quantized_matrix.h and turns their codes
// into operands of tensor cores. A code less its format's zero is a small integer, which bf16 holds
// exactly. Device code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_QUANTIZED_CELLS_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_QUANTIZED_CELLS_CUH_

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda::device {

// How codes are stored. The rest of a format is known at run time, because that costs little.
template <int kNumBits, bool kIsUneven>
struct Codes {
  static constexpr int kBits = kNumBits;
  static constexpr bool kUneven = kIsUneven;
  static constexpr int kRounds = kBits == 8 ? 2 : 1;
  static constexpr int kPlanes = kBits == 5 ? 1 : kBits == 6 ? 2 : 0;
  static constexpr int kGroups = kBits == 6 ? 4 : 2;    // of a cell
  static constexpr int kSixteens = kBits == 6 ? 1 : 2;  // of a group
};

// A part of a matrix.
struct QuantizedView {
  const uint4* codes;
  const uint32_t *planes, *numbers, *supers;
  uint32_t outputs, cells;
  uint32_t number_words, super_words;
  uint32_t zeros;  // twice the bf16 number 128 + zero, of formats of at most 6 bits
  bool steps, offsets;
};

__device__ __forceinline__ uint32_t Word(const uint4& words, int i) {
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

// Exact where both are integers below 2^8.
__device__ __forceinline__ uint32_t SubtractPairs(uint32_t from, uint32_t less) {
  const __nv_bfloat162 pair = __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&from),
                                      *reinterpret_cast<const __nv_bfloat162*>(&less));
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// The bytes 0 and 2, less 128. bf16 has seven bits behind the first one, which are those of an
// integer from 128 to 255. A byte is its lower seven bits beside 128, less 256 or 128.
__device__ __forceinline__ uint32_t BytePair(uint32_t bytes) {
  return SubtractPairs((bytes & 0x007f007fu) | 0x43004300u, (bytes & 0x00800080u) ^ 0x43804380u);
}

constexpr uint32_t UnevenWord(int first) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word |= uint32_t{kUnevenCodes[first + i]} << 8 * i;
  return word;
}

// The bytes for four codes of 4 bits, which are the lower half of `codes`.
__device__ __forceinline__ uint32_t UnevenBytes(uint32_t codes) {
  constexpr uint32_t kTable[] = {UnevenWord(0), UnevenWord(4), UnevenWord(8), UnevenWord(12)};
  const uint32_t lower = __byte_perm(kTable[0], kTable[1], codes);
  const uint32_t upper = __byte_perm(kTable[2], kTable[3], codes);
  return __byte_perm(lower, upper, 0x3210u | (codes & 0x8888u) >> 1);
}

__device__ __forceinline__ float Half(uint32_t bits) {
  return ToFloat(fp16{static_cast<uint16_t>(bits)});
}

// The lowest byte, as a signed number. 2^23 and a byte behind it are a float32 number.
__device__ __forceinline__ float SignedByte(uint32_t bits) {
  return __uint_as_float(0x4b000000u | ((bits & 0xffu) ^ 0x80u)) - 8388736.0f;
}

// The part of a cell that a lane holds.
template <typename Of>
struct QuantizedCell {
  uint4 codes[Of::kRounds];
  uint32_t planes[Of::kPlanes == 0 ? 1 : Of::kPlanes];
  uint32_t numbers[4];  // without steps all words; else theirs, and from the third on the supers'

  // Nothing is read beyond the last cell, where nothing is multiplied either.
  __device__ __forceinline__ void Load(const QuantizedView& of, uint32_t tile, uint32_t cell) {
    if (cell >= of.cells) return;
    const uint32_t lane = threadIdx.x % 32;
    const size_t at = size_t{tile} * of.cells + cell;
#pragma unroll
    for (int i = 0; i < Of::kRounds; ++i) codes[i] = of.codes[(at * Of::kRounds + i) * 32 + lane];
#pragma unroll
    for (int i = 0; i < Of::kPlanes; ++i) planes[i] = of.planes[(at * Of::kPlanes + i) * 32 + lane];
    const uint32_t* words = of.numbers + (at * 8 + lane / 4) * of.number_words;
    numbers[0] = words[0];
    if (of.number_words > 1) numbers[1] = words[1];
    if (of.number_words > 2) {
      numbers[2] = words[2];
      numbers[3] = words[3];
    }
    if (!of.steps) return;
    const size_t super = size_t{tile} * (of.cells / 4) + cell / 4;
    words = of.supers + (super * 8 + lane / 4) * of.super_words;
    numbers[2] = words[0];
    if (of.offsets) numbers[3] = words[1];
  }

  // The codes less the zero, of the columns 16 s + 4 t and its three neighbours, in the form of
  // MultiplyTiles.
  __device__ __forceinline__ void Tile(const QuantizedView& of, int s, uint32_t (&a)[4]) const {
    const uint32_t word = Word(codes[0], s);
    const uint32_t lower = Of::kUneven ? UnevenBytes(word) : 0;
    const uint32_t upper = Of::kUneven ? UnevenBytes(word >> 16) : 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if constexpr (Of::kBits == 8) {
        a[j] = BytePair(Word(codes[s / 2], s % 2 * 2 + j / 2) >> 8 * (j % 2));
      } else if constexpr (Of::kUneven) {
        a[j] = BytePair(__byte_perm(lower, upper, j | (4 + j) << 8));
      } else {
        const uint32_t pair = ((word >> 4 * j) & 0x000f000fu) | UpperBits(s, j) | 0x43004300u;
        a[j] = SubtractPairs(pair, of.zeros);
      }
    }
  }

  // The numbers of a group of the cell, in row g, or with `half` in row g + 8.
  __device__ __forceinline__ float Step(const QuantizedView& of, int group, int half) const {
    if constexpr (Of::kGroups == 4) {
      return Half(numbers[2] >> 16 * half) * SignedByte(numbers[half] >> 8 * group);
    } else {
      if (!of.steps) return Half(numbers[half] >> 16 * group);
      return Half(numbers[2] >> 16 * half) * SignedByte(numbers[0] >> 8 * (2 * half + group));
    }
  }
  __device__ __forceinline__ float Offset(const QuantizedView& of, int group, int half) const {
    if constexpr (Of::kGroups == 4) {
      return 0;
    } else {
      if (!of.steps) return Half(numbers[2 + half] >> 16 * group);
      return Half(numbers[3] >> 16 * half) * SignedByte(numbers[1] >> 8 * (2 * half + group));
    }
  }

 private:
  // The bits of pair j above the lower four, at their places.
  __device__ __forceinline__ uint32_t UpperBits(int s, int j) const {
    if constexpr (Of::kPlanes == 0) return 0;
    const int place = Of::kPlanes == 2 ? 2 * (4 * (s % 2) + j) : 4 * s + j;
    const uint32_t bits = planes[Of::kPlanes == 2 ? s / 2 : 0];
    const uint32_t moved = place < 4 ? bits << (4 - place) : bits >> (place - 4);
    return moved & (Of::kPlanes == 2 ? 0x00300030u : 0x00100010u);
  }
};

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_QUANTIZED_CELLS_CUH_
