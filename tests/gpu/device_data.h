// These helpers put inputs on the device and read results back, for tests that run on a GPU and on
// the emulator. The inputs are those of tests/kernels.
#ifndef FOLIO_TESTS_GPU_DEVICE_DATA_H_
#define FOLIO_TESTS_GPU_DEVICE_DATA_H_

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cuda/types.h"
#include "services/base/check.h"
#include "tests/kernels/kernel_data.h"

namespace folio::kernels::cuda {

using cpu::Random;
using cpu::RandomFloats;
using cpu::RandomPool;

// A copy of `values` in the device's memory.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : size_(values.size()) {
    void* memory = nullptr;
    FOLIO_CHECK(cudaMalloc(&memory, std::max<size_t>(bytes(), 16)) == cudaSuccess);
    data_ = static_cast<T*>(memory);
    Write(values);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* data() const { return data_; }
  DeviceArray<T> array() const { return {data_, static_cast<uint32_t>(size_)}; }
  void Write(const std::vector<T>& values) {
    FOLIO_CHECK(values.size() == size_);
    if (size_ == 0) return;
    FOLIO_CHECK(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  // Waits for all that was enqueued.
  std::vector<T> Read() const {
    std::vector<T> values(size_);
    FOLIO_CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
    if (size_ == 0) return values;
    FOLIO_CHECK(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost) == cudaSuccess);
    return values;
  }

 private:
  size_t bytes() const { return size_ * sizeof(T); }

  size_t size_;
  T* data_ = nullptr;
};

// Stored numbers of either type, as their bits.
using Stored = std::vector<uint16_t>;

inline uint16_t Round(DataType type, float x) {
  if (type == DataType::kBf16) return bf16::Round(x).bits;
  return std::bit_cast<uint16_t>(static_cast<_Float16>(x));
}
inline float Value(DataType type, uint16_t bits) {
  if (type == DataType::kBf16) return bf16{bits}.ToFloat();
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}
// How far apart neighbouring numbers are, as a share.
inline float Precision(DataType type) { return type == DataType::kBf16 ? 1 / 128.0f : 1 / 1024.0f; }

inline Stored RoundAll(DataType type, const std::vector<float>& values) {
  Stored stored;
  for (const float x : values) stored.push_back(Round(type, x));
  return stored;
}
// The numbers of a pool, which are bf16, in another type. They fit, except for the smallest.
inline Stored Restored(DataType type, const std::vector<bf16>& values) {
  Stored stored;
  for (const bf16 x : values) stored.push_back(Round(type, x.ToFloat()));
  return stored;
}

// Multiples of 1/64 in either direction: the same in both types, and nothing becomes subnormal.
inline std::vector<bf16> RoundNumbers(std::vector<bf16> values) {
  for (bf16& x : values) x = bf16::Round(std::nearbyint(x.ToFloat() * 64) / 64);
  return values;
}

// A pool's pages and board, moved to the device in the type asked for.
class PoolOnDevice {
 public:
  PoolOnDevice(DataType type, const RandomPool& pool)
      : type_(type),
        geometry_(pool.geometry),
        pages_(Restored(type, pool.values)),
        scores_(pool.scores) {}

  DevicePool pool() const {
    const size_t pages = pages_.array().size * sizeof(uint16_t) / geometry_.page_bytes();
    return {{reinterpret_cast<std::byte*>(pages_.data()), scores_.data(),
             static_cast<uint32_t>(pages), geometry_},
            type_};
  }
  std::vector<float> Scores() const { return scores_.Read(); }
  Stored Numbers() const { return pages_.Read(); }

 private:
  DataType type_;
  CacheGeometry geometry_;
  OnDevice<uint16_t> pages_;
  OnDevice<float> scores_;
};

inline Tensor Dense(void* data, DataType type, uint32_t rows, uint32_t cols) {
  return {data, type, rows, cols, cols};
}

// Rows of whole 16 bytes and one more of them, in which nothing may be written.
inline size_t PaddedStride(DataType type, uint32_t cols) {
  const size_t unit = 16 / BytesOf(type);
  return (cols + unit - 1) / unit * unit + unit;
}

// By the type of what is stored.
class StoredTest : public testing::TestWithParam<DataType> {
 protected:
  DataType type() const { return GetParam(); }
  Random random_{71};
};

inline std::string TypeName(const testing::TestParamInfo<DataType>& info) {
  return info.param == DataType::kBf16 ? "bf16" : "fp16";
}

inline const auto kStored = testing::Values(DataType::kBf16, DataType::kFp16);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_TESTS_GPU_DEVICE_DATA_H_
