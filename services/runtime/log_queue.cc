#include "services/runtime/log_queue.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/string_view.h"

namespace folio::log {
namespace {

// False if the descriptor takes no more, such as a pipe without a reader or a full disk.
bool WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      // Another process that shares the pipe has made it non-blocking.
      pollfd ready = {fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (written == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

LogQueue::LogQueue(int fd, size_t max_bytes, std::function<std::string(uint64_t)> dropped_line)
    : fd_(fd), max_bytes_(max_bytes), dropped_line_(std::move(dropped_line)) {
  // A thread inherits the mask of the one that starts it.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogQueue::~LogQueue() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  thread_.join();
}

void LogQueue::Append(std::string line) {
  line += '\n';
  bytes_ += line.size();
  ++unwritten_;
  lines_.push_back(std::move(line));
}

void LogQueue::Push(std::string line) {
  absl::MutexLock lock(&mutex_);
  const bool fits = lines_.empty() || bytes_ + line.size() < max_bytes_;
  if (missing_ == 0 && fits) {
    Append(std::move(line));
    return;
  }
  ++missing_;
  ++dropped_;
}

void LogQueue::Run() {
  mutex_.Lock();
  for (;;) {
    mutex_.Await(absl::Condition(this, &LogQueue::HasWork));
    if (lines_.empty()) break;
    const std::string line = std::move(lines_.front());
    lines_.pop_front();
    bytes_ -= line.size();
    mutex_.Unlock();
    const bool written = WriteAll(fd_, line);
    mutex_.Lock();
    if (!written) ++dropped_;
    if (lines_.empty() && missing_ > 0) Append(dropped_line_(std::exchange(missing_, 0)));
    --unwritten_;
    written_.SignalAll();
  }
  mutex_.Unlock();
}

bool LogQueue::Flush(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return written_.Await(&mutex_, SteadyNow() + timeout, [this] { return idle(); });
}

}  // namespace folio::log
