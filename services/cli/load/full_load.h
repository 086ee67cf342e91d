// FullLoad measures the rate of output tokens in the time in which all clients decode at once. The
// rate of a whole run also counts the time in which prompts are computed and in which the last
// answers end, and so says less about a server.
#ifndef FOLIO_SERVICES_CLI_LOAD_FULL_LOAD_H_
#define FOLIO_SERVICES_CLI_LOAD_FULL_LOAD_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/base/steady_time.h"

namespace folio::load {

// Thread-safe.
class FullLoad {
 public:
  // With 0 clients there is no full load.
  explicit FullLoad(size_t clients) : clients_(clients) {}

  // So many output tokens have come.
  void Count(uint32_t tokens) { tokens_.fetch_add(tokens, std::memory_order_relaxed); }

  // An answer has its first token, which was counted before.
  void Begin(SteadyTime at) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    if (++decoding_ != clients_) return;
    begun_ = at;
    before_ = tokens();
  }

  // An answer that had begun has ended.
  void End(SteadyTime at) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    if (decoding_-- != clients_) return;
    // Threads that take the time together may come here in either order.
    time_ += std::max(at - begun_, absl::ZeroDuration());
    counted_ += tokens() - before_;
  }

  // All output tokens until now.
  uint64_t tokens() const { return tokens_.load(std::memory_order_relaxed); }

  // The seconds in which all clients decoded, and the tokens that came meanwhile.
  double seconds() const ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    return absl::ToDoubleSeconds(time_);
  }
  uint64_t counted() const ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    return counted_;
  }

 private:
  const size_t clients_;
  std::atomic<uint64_t> tokens_ = 0;
  mutable absl::Mutex mutex_;
  size_t decoding_ ABSL_GUARDED_BY(mutex_) = 0;
  SteadyTime begun_ ABSL_GUARDED_BY(mutex_);
  uint64_t before_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration time_ ABSL_GUARDED_BY(mutex_);
  uint64_t counted_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace folio::load

#endif  // FOLIO_SERVICES_CLI_LOAD_FULL_LOAD_H_
