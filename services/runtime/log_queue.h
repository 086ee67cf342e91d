// LogQueue writes log lines on a thread of its own, because a write to a full pipe waits for the
// reader, and there may be none. The queue is bounded: once it is full, lines are dropped until all
// that wait are written, and then one line says how many are missing at that place. spdlog's
// asynchronous logger does not serve here, because its end waits for the write in progress.
#ifndef FOLIO_SERVICES_RUNTIME_LOG_QUEUE_H_
#define FOLIO_SERVICES_RUNTIME_LOG_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/base/steady_wait.h"

namespace folio::log {

// Thread-safe.
class LogQueue {
 public:
  // Writes to the descriptor, which is borrowed. Up to `max_bytes` wait, or one line if it is
  // longer. `dropped_line` makes the line that stands for so many dropped ones. The thread blocks
  // all signals.
  LogQueue(int fd, size_t max_bytes, std::function<std::string(uint64_t)> dropped_line);
  // Writes what waits, and so may wait for a reader. Programs keep their queue until they end.
  ~LogQueue();
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;

  // Takes a line without its end. Never waits for a write.
  void Push(std::string line) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until all lines are written. False if `timeout` passes first.
  bool Flush(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  // Lines that had no room or could not be written, since the start.
  uint64_t dropped() const { return dropped_; }
  // Whether all lines are written. A signal handler may ask.
  bool idle() const { return unwritten_ == 0; }

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Append(std::string line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !lines_.empty() || ending_; }

  const int fd_;
  const size_t max_bytes_;
  const std::function<std::string(uint64_t)> dropped_line_;
  std::atomic<uint64_t> dropped_ = 0;
  std::atomic<size_t> unwritten_ = 0;  // lines that wait, and the one that is being written

  absl::Mutex mutex_;
  SteadyCondVar written_;  // a line was
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;      // of `lines_`
  uint64_t missing_ ABSL_GUARDED_BY(mutex_) = 0;  // dropped after the last of `lines_`
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace folio::log

#endif  // FOLIO_SERVICES_RUNTIME_LOG_QUEUE_H_
