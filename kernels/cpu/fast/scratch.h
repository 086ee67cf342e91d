// Scratch is memory that is reused from call to call and grows when a call needs more. It is not
// thread-safe.
#ifndef FOLIO_KERNELS_CPU_FAST_SCRATCH_H_
#define FOLIO_KERNELS_CPU_FAST_SCRATCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>

#include "kernels/cpu/fast/kernels.h"
#include "services/base/check.h"

namespace folio::kernels::cpu::fast {

template <typename T>
class Scratch {
 public:
  // At least `count` uninitialised elements, aligned to a cache line.
  T* Get(size_t count) {
    if (count > size_) {
      size_ = std::max(count, size_ + size_ / 2);
      const size_t bytes = (size_ * sizeof(T) + kAlign - 1) / kAlign * kAlign;
      memory_.reset(static_cast<T*>(std::aligned_alloc(kAlign, bytes)));
      FOLIO_CHECK(memory_ != nullptr);
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> memory_;
  size_t size_ = 0;
};

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_SCRATCH_H_
