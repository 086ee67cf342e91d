// This header defines the emulator's stream, for its own sources.
#ifndef FOLIO_TESTS_EMULATOR_STREAMS_H_
#define FOLIO_TESTS_EMULATOR_STREAMS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

struct CUgraph_st {
  std::vector<std::function<void()>> work;
  uint64_t collectives = 0;  // of NCCL
  bool broken = false;       // by what may not be recorded
};

struct CUstream_st {
  std::deque<std::function<void()>> work;
  uint64_t enqueued = 0;
  std::unique_ptr<CUgraph_st> recorded;  // while it is being recorded
};

namespace folio::emulate {

// The stream that this thread records, if any: one at a time.
inline thread_local CUstream_st* recording = nullptr;

// Whether the stream is being recorded.
inline bool Recorded(const CUstream_st* stream) {
  return stream != nullptr && stream->recorded != nullptr;
}

// Device memory that graphs take.
size_t GraphBytes();

}  // namespace folio::emulate

#endif  // FOLIO_TESTS_EMULATOR_STREAMS_H_
