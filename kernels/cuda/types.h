// This header has the arguments and results of operations on GPUs, beside kernels/views.h. All
// pointers are to memory that the device can read and write, its own or mapped memory of the host.
// Nothing here owns memory. This header includes no CUDA header.
#ifndef FOLIO_KERNELS_CUDA_TYPES_H_
#define FOLIO_KERNELS_CUDA_TYPES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/e4m3.h"
#include "kernels/quantized_format.h"
#include "kernels/views.h"

struct CUstream_st;

namespace folio::kernels::cuda {

// cudaStream_t, CUstream. Null is the default stream.
using Stream = CUstream_st*;

enum class DataType : uint8_t { kFloat32, kBf16, kFp16, kE4M3 };

constexpr size_t BytesOf(DataType type) {
  return type == DataType::kFloat32 ? 4 : type == DataType::kE4M3 ? 1 : 2;
}

// IEEE half precision; bf16 is in kernels/views.h.
struct fp16 {
  uint16_t bits = 0;
};

// A row-major matrix [rows, cols], with `stride` elements from one row to the next. Rows begin at
// multiples of 16 bytes. The numbers of a row of E4M3 are its codes times the row's scale.
struct Tensor {
  void* data = nullptr;
  DataType type = DataType::kBf16;
  uint32_t rows = 0;
  uint32_t cols = 0;
  size_t stride = 0;
  float* scales = nullptr;  // [rows], of kE4M3 alone
};
struct QuantizedParts;
struct ConstTensor {
  const void* data = nullptr;
  DataType type = DataType::kBf16;
  uint32_t rows = 0;
  uint32_t cols = 0;
  size_t stride = 0;
  const float* scales = nullptr;
  // Not null: a matrix of quantised values, which are multiplied by bf16. It has no data.
  const QuantizedParts* parts = nullptr;

  ConstTensor() = default;
  ConstTensor(const void* data, DataType type, uint32_t rows, uint32_t cols, size_t stride,
              const float* scales = nullptr)
      : data(data), type(type), rows(rows), cols(cols), stride(stride), scales(scales) {}
  // NOLINTNEXTLINE(google-explicit-constructor): as a pointer becomes one to const.
  ConstTensor(const Tensor& t) : ConstTensor(t.data, t.type, t.rows, t.cols, t.stride, t.scales) {}
};

// Rows of a matrix that are quantised in one format, in the order of quantized_matrix.h. `data`
// begins at a multiple of 16 bytes.
struct QuantizedPart {
  const std::byte* data = nullptr;
  QuantizedFormat format;
  uint32_t rows = 0;
};
// All rows of a matrix, the parts one below the other. This is in memory of the host and outlives
// the products that it is given to.
struct QuantizedParts {
  static constexpr uint32_t kMost = 3;
  QuantizedPart at[kMost];
  uint32_t count = 0;
};

// Whether rows begin at multiples of 16 bytes and do not overlap.
inline bool RowsAreAligned(const ConstTensor& tensor) {
  constexpr size_t kAlignment = 16;
  return reinterpret_cast<uintptr_t>(tensor.data) % kAlignment == 0 &&
         tensor.stride * BytesOf(tensor.type) % kAlignment == 0 && tensor.stride >= tensor.cols;
}

// Columns of matrices in E4M3, and rows of such weights, are multiples of this.
inline constexpr uint32_t kE4M3Multiple = 16;

// An array on the device.
template <typename T>
struct DeviceArray {
  const T* data = nullptr;
  uint32_t size = 0;
};

// One rank's pages and the type of their numbers. PoolView says bf16, but both types have two
// bytes, so offsets are the same. `scores` is the device's address of the host-mapped board.
struct DevicePool {
  PoolView view;
  DataType type = DataType::kBf16;  // or kFp16
};

// The smallest size of heads that kernels of attention are compiled for and that has `head_dim`, or
// 0 if none is so large.
constexpr uint32_t ServedHeads(uint32_t head_dim) {
  for (const uint32_t served : {64u, 128u, 256u}) {
    if (head_dim <= served) return served;
  }
  return 0;
}
constexpr bool ServesHeads(uint32_t head_dim) { return ServedHeads(head_dim) == head_dim; }

// The value of AppendSlot::page for a row that is padding of a captured batch and is stored
// nowhere.
inline constexpr uint32_t kNoPage = 0xffffffff;

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_TYPES_H_
