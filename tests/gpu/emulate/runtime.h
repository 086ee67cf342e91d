// The device that stands for a GPU: its streams, its memory, and what tests may set of it.
#ifndef FOLIO_TESTS_GPU_EMULATE_RUNTIME_H_
#define FOLIO_TESTS_GPU_EMULATE_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <functional>

struct CUstream_st;

namespace folio::emulate {

// Does `work` at once on the default stream, on others when somebody waits for it.
void Enqueue(CUstream_st* stream, std::function<void()> work);

// The device's memory: what is allocated beyond it is refused.
inline constexpr size_t kMemoryBytes = size_t{4} << 30;
size_t AllocatedBytes();

}  // namespace folio::emulate

#endif  // FOLIO_TESTS_GPU_EMULATE_RUNTIME_H_
