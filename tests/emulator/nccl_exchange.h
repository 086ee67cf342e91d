// This header is how ranks of the stand-in for NCCL exchange data: through memory that they share.
#ifndef FOLIO_TESTS_EMULATOR_NCCL_EXCHANGE_H_
#define FOLIO_TESTS_EMULATOR_NCCL_EXCHANGE_H_

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/views.h"

namespace folio::emulate {

using kernels::bf16;

inline constexpr int kNcclMaxRanks = 8;
inline constexpr size_t kNcclChunk = size_t{32} << 10;

// From one rank to another.
struct NcclMailbox {
  std::atomic<uint64_t> sent, received;  // chunks
  uint64_t recorded;                     // of the call
  char data[kNcclChunk];
};
struct NcclShared {
  std::atomic<int> joined;
  std::atomic<bool> misused;
  NcclMailbox mail[kNcclMaxRanks][kNcclMaxRanks];  // [from][to]
};

// Lives as long as work that uses it.
struct NcclExchange {
  NcclShared* shared = nullptr;
  int rank = 0, ranks = 0;
  std::atomic<bool> aborted{false};
  // The number within its graph of the recorded call or bracket that runs, from 1, or 0 for one
  // that was not recorded.
  uint64_t recorded = 0;
  ~NcclExchange() {
    if (shared != nullptr) munmap(shared, sizeof(NcclShared));
  }

  // False when aborted. Work after that does nothing.
  bool Await(const std::atomic<uint64_t>& a, const std::atomic<uint64_t>& b, uint64_t apart) const {
    for (int looks = 0;; ++looks) {
      if (aborted.load() || shared->misused.load()) return false;
      if (a.load() - b.load() == apart) return true;
      // The peer may need this core.
      if (looks < 64) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }
  void Send(int to, const void* from, size_t bytes) const {
    NcclMailbox& box = shared->mail[rank][to];
    for (size_t at = 0; at < bytes; at += kNcclChunk) {
      if (!Await(box.sent, box.received, 0)) return;
      box.recorded = recorded;
      std::memcpy(box.data, static_cast<const char*>(from) + at, std::min(kNcclChunk, bytes - at));
      box.sent.fetch_add(1);
    }
  }
  void Receive(int from, void* to, size_t bytes) const {
    NcclMailbox& box = shared->mail[from][rank];
    for (size_t at = 0; at < bytes; at += kNcclChunk) {
      if (!Await(box.sent, box.received, 1)) return;
      if (box.recorded != recorded) return shared->misused.store(true);
      std::memcpy(static_cast<char*>(to) + at, box.data, std::min(kNcclChunk, bytes - at));
      box.received.fetch_add(1);
    }
  }
  void Broadcast(int root, const void* from, void* to, size_t bytes) const {
    if (rank != root) return Receive(root, to, bytes);
    for (int other = 0; other < ranks; ++other) {
      if (other != root) Send(other, from, bytes);
    }
    if (from != to && bytes > 0) std::memmove(to, from, bytes);
  }
  // Rank 0 adds up, in the order of ranks: the same bits for all.
  template <typename T>
  void Sum(const void* from, void* to, size_t count) const;
};

inline float ToFloat(float x) { return x; }
inline float ToFloat(bf16 x) { return x.ToFloat(); }
inline void Set(float& to, float x) { to = x; }
inline void Set(bf16& to, float x) { to = bf16::Round(x); }

template <typename T>
inline void NcclExchange::Sum(const void* from, void* to, size_t count) const {
  if (rank > 0) {
    Send(0, from, count * sizeof(T));
    return Receive(0, to, count * sizeof(T));
  }
  const auto* own = static_cast<const T*>(from);
  std::vector<float> sums(count);
  std::vector<T> theirs(count);
  for (size_t i = 0; i < count; ++i) sums[i] = ToFloat(own[i]);
  for (int other = 1; other < ranks; ++other) {
    Receive(other, theirs.data(), count * sizeof(T));
    for (size_t i = 0; i < count; ++i) sums[i] += ToFloat(theirs[i]);
  }
  for (size_t i = 0; i < count; ++i) Set(static_cast<T*>(to)[i], sums[i]);
  Broadcast(0, to, to, count * sizeof(T));
}

}  // namespace folio::emulate

#endif  // FOLIO_TESTS_EMULATOR_NCCL_EXCHANGE_H_
