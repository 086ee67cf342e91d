// This header is the emulated device: its streams, its memory, and the faults that tests may set.
#ifndef FOLIO_TESTS_EMULATOR_RUNTIME_H_
#define FOLIO_TESTS_EMULATOR_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "cuda_runtime_api.h"

namespace folio::emulate {

// Does `work` at once on the default stream, on others when somebody waits for it. A stream that is
// being recorded keeps it.
void Enqueue(CUstream_st* stream, std::function<void()> work);

// For what may not be recorded: a recording, if there is one, fails.
void BreakRecording();

// The device's memory: what is allocated beyond it is refused.
inline constexpr size_t kMemoryBytes = size_t{4} << 30;
size_t AllocatedBytes();

uint64_t GraphsLaunched();

// The calls by which this thread has given work to streams so far: kernels, copies and collectives
// that were not recorded, and launches of graphs.
uint64_t CallsMade();

// Errors that calls return instead of working, until they are set to success again.
struct Faults {
  cudaError_t instantiate = cudaSuccess;  // of a graph
  cudaError_t launch = cudaSuccess;       // of a graph
  cudaError_t wait = cudaSuccess;         // for a stream or an event
  cudaError_t peer_access = cudaSuccess;  // to memory of another device
};
inline Faults faults;

// No algorithm multiplies in parts, as long as this is true.
inline bool refuse_parts = false;

// Whether other processes may map what is allocated from now on.
inline bool share_memory = false;

}  // namespace folio::emulate

#endif  // FOLIO_TESTS_EMULATOR_RUNTIME_H_
