// This header has random inputs for kernels, in the form of each family, and the families of this
// machine.
#ifndef FOLIO_TESTS_KERNELS_KERNEL_DATA_H_
#define FOLIO_TESTS_KERNELS_KERNEL_DATA_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/ops.h"

namespace folio::kernels::cpu {

// Names of the fast families that this CPU runs. Never empty.
inline std::vector<std::string> FastFamilies() {
  std::vector<std::string> names;
  for (const char* name :
       {"avx512_amx", "avx512_bf16", "avx512_vnni", "avx512", "avx_vnni", "avx2", "portable"}) {
    if (MakeFastOps(name).ok()) names.push_back(name);
  }
  return names;
}

using Random = std::mt19937;

// Standard normal times `scale`, rounded to bf16.
inline std::vector<bf16> RandomBf16(Random& random, size_t count, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<bf16> values(count);
  for (bf16& value : values) value = bf16::Round(normal(random));
  return values;
}

inline std::vector<float> RandomFloats(Random& random, size_t count, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Activations of either family, made from or read as floats.
class ActivationBuffer {
 public:
  ActivationBuffer(const CpuOps& ops, uint32_t rows, uint32_t cols)
      : element_(ops.activation_bytes()),
        rows_(rows),
        cols_(cols),
        bytes_(std::max<size_t>(1, size_t{rows} * cols * element_), 0xee) {}
  ActivationBuffer(const CpuOps& ops, uint32_t rows, uint32_t cols, const bf16* values)
      : ActivationBuffer(ops, rows, cols) {
    for (size_t i = 0; i < size_t{rows} * cols; ++i) {
      const float value = values[i].ToFloat();
      void* at = bytes_.data() + i * element_;
      element_ == 2 ? std::memcpy(at, &values[i], 2) : std::memcpy(at, &value, 4);
    }
  }

  Activations view() { return {bytes_.data(), rows_, cols_}; }
  float at(size_t i) const {
    bf16 half;
    float full;
    std::memcpy(&half, bytes_.data() + i * element_, 2);
    if (element_ == 2) return half.ToFloat();
    std::memcpy(&full, bytes_.data() + i * element_, 4);
    return full;
  }
  std::vector<uint8_t> row_bytes(size_t row) const {
    const size_t size = cols_ * element_;
    return {bytes_.begin() + row * size, bytes_.begin() + (row + 1) * size};
  }

 private:
  size_t element_;
  uint32_t rows_, cols_;
  std::vector<uint8_t> bytes_;
};

template <typename T>
Matrix<T> AsMatrix(std::vector<std::remove_const_t<T>>& values, size_t rows, size_t cols) {
  return {values.data(), rows, cols, cols};
}

// A pool of pages with random keys and values, and shuffled tables into it.
struct RandomPool {
  RandomPool(Random& random, uint32_t pages, uint32_t kv_heads, uint32_t head_dim,
             uint32_t page_tokens = 16) {
    geometry = {.num_layers = 1,
                .num_kv_heads = kv_heads,
                .head_dim = head_dim,
                .page_tokens = page_tokens};
    values = RandomBf16(random, pages * geometry.page_bytes() / sizeof(bf16));
    scores.assign(geometry.score_board_floats(pages), -1.0f);
    num_pages = pages;
    free_pages.resize(pages);
    std::iota(free_pages.begin(), free_pages.end(), 0u);
    std::shuffle(free_pages.begin(), free_pages.end(), random);
  }
  std::vector<uint32_t> Table(uint32_t tokens) {
    std::vector<uint32_t> table;
    for (uint32_t i = 0; i < geometry.pages_for(tokens); ++i) {
      table.push_back(free_pages.back());
      free_pages.pop_back();
    }
    return table;
  }
  PoolView view() {
    return {reinterpret_cast<std::byte*>(values.data()), scores.data(), num_pages, geometry};
  }

  CacheGeometry geometry;
  uint32_t num_pages;
  std::vector<bf16> values;
  std::vector<float> scores;
  std::vector<uint32_t> free_pages;
};

}  // namespace folio::kernels::cpu

#endif  // FOLIO_TESTS_KERNELS_KERNEL_DATA_H_
