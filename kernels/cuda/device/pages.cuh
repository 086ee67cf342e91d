// DevicePages finds a token slot's key, value and score. Device code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_PAGES_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_PAGES_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/types.h"

namespace folio::kernels::cuda::device {

// A pool as kernels see it. T is the stored type.
template <typename T>
struct Pages {
  T* data;        // [page][K, V][kv_head][token][head_dim]
  float* scores;  // [channel][page][token][board head] from the rank's first head on, or null
  uint32_t num_pages, kv_heads, head_dim, page_tokens, score_stride;

  explicit Pages(const DevicePool& pool)
      : data(reinterpret_cast<T*>(pool.view.pages)),
        scores(pool.view.scores == nullptr ? nullptr : pool.view.page_scores(0)),
        num_pages(pool.view.num_pages),
        kv_heads(pool.view.geometry.num_kv_heads),
        head_dim(pool.view.geometry.head_dim),
        page_tokens(pool.view.geometry.page_tokens),
        score_stride(pool.view.score_stride()) {}

  // [head_dim]. Heads of K come first, then heads of V.
  __device__ __forceinline__ T* row(uint32_t page, uint32_t head, uint32_t token) const {
    return data + ((size_t{page} * 2 * kv_heads + head) * page_tokens + token) * size_t{head_dim};
  }
  __device__ __forceinline__ T* key(uint32_t page, uint32_t head, uint32_t token) const {
    return row(page, head, token);
  }
  __device__ __forceinline__ T* value(uint32_t page, uint32_t head, uint32_t token) const {
    return row(page, kv_heads + head, token);
  }
  // [kv_head] of one slot.
  __device__ __forceinline__ float* score(uint32_t page, uint32_t token,
                                          uint32_t channel = 0) const {
    return scores + ((size_t{channel} * num_pages + page) * page_tokens + token) * score_stride;
  }
};

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_PAGES_CUH_
