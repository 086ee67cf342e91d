// DequantizeRow turns stored weights into floats. It knows the number formats of GGUF and
// safetensors. Its functions are pure and may be called from any thread.
//
// Formats of ggml with blocks of 32 values, which share a half-precision scale d and in some an
// offset m. Low nibbles are values 0 to 15 of the block, high ones 16 to 31.
//   Q8_0    d, 32 signed bytes q                   value = d * q
//   Q4_0    d, 16 bytes of two nibbles q           value = d * (q - 8)
//   Q4_1    d, m, 16 bytes of two nibbles q        value = d * q + m
//   Q5_0    d, 32 fifth bits, 16 bytes of nibbles  value = d * (q - 16)
//   Q5_1    d, m, 32 fifth bits, 16 bytes          value = d * q + m
//   IQ4_NL  d, 16 bytes of two nibbles q           value = d * table[q]
//
// Formats with blocks of 256 values, in which 16 or 32 neighbours (a group) share a small integer
// s, and in some another one, t. The half-precision d (and e for offsets) scale these integers.
//   Q2_K    groups of 16, s and t of 4 bits        value = (d * s) * q - (e * t), q of 2 bits
//   Q3_K    groups of 16, s of 6 bits              value = (d * (s - 32)) * (q - 4), q of 3 bits
//   Q4_K    groups of 32, s and t of 6 bits        value = (d * s) * q - (e * t), q of 4 bits
//   Q5_K    as Q4_K                                q of 5 bits
//   Q6_K    groups of 16, s a signed byte          value = (d * s) * (q - 32), q of 6 bits
//   IQ4_XS  groups of 32, s of 6 bits              value = (d * (s - 32)) * table[q], q of 4 bits
// Parentheses tell the order, in which each operation rounds to float32, as the reference of ggml
// does (its Python package gguf). With a fused multiplication and addition the results are the
// same, because the products that are added to something are exact.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_BLOCK_FORMATS_H_
#define FOLIO_SERVICES_MODEL_SOURCE_BLOCK_FORMATS_H_

#include <cstddef>
#include <cstdint>

namespace folio::model {

// kPacked is a matrix that several tensors make up (packed_matrix.h). kOther is a format that this
// code cannot read. A tensor that is not needed may have it.
enum class StorageType {
  kF32,
  kF16,
  kBF16,
  kE4M3,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kIq4Nl,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq4Xs,
  kPacked,
  kOther
};

inline constexpr size_t kQuantBlock = 32;   // values in a block of Q8_0 and its like
inline constexpr size_t kSuperBlock = 256;  // values in a block of Q4_K and its like

// Values per block (1 for plain floats) and bytes per block. Not for kPacked and kOther.
size_t BlockValues(StorageType type);
size_t BlockBytes(StorageType type);

float HalfToFloat(uint16_t half);

// `count` values, a multiple of BlockValues(type); `in` needs no alignment. Those of kE4M3 are
// without their row's scale.
void DequantizeRow(StorageType type, const std::byte* in, size_t count, float* out);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_BLOCK_FORMATS_H_
