// Exchange is one request and its answer. The connection that the request came on gives it to a
// handler. The handler answers from any thread, whole or in pieces.
#ifndef FOLIO_SERVICES_GATEWAY_HTTP_EXCHANGE_H_
#define FOLIO_SERVICES_GATEWAY_HTTP_EXCHANGE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "services/gateway/http/message.h"

namespace folio::gateway {

// Thread-safe. The connection and the handler share it, and either may be the last to let it go.
// After the client has gone, the answer's calls do nothing.
class Exchange {
 public:
  // An answer in pieces is behind when this much of it waits for the client, and no longer when all
  // of it was given to the system.
  static constexpr size_t kBehindBytes = size_t{64} << 10;

  // `wake` tells the connection that there is something to send.
  Exchange(HttpRequest request, std::function<void()> wake);

  const HttpRequest& request() const { return request_; }

  // A handler that works on after its return calls it first. `gone` is called once if the client
  // leaves before it has the answer, and `behind` whenever an answer in pieces begins or ceases to
  // wait for the client, under this object's lock. Both are let go at the end of the answer.
  void Watch(std::function<void()> gone, std::function<void(bool)> behind)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Answers whole, once.
  void Reply(const HttpReply& reply) ABSL_LOCKS_EXCLUDED(mutex_);
  // Answers in pieces: the head with the first piece, further pieces, and the end.
  void Begin(const HttpReply& head) ABSL_LOCKS_EXCLUDED(mutex_);
  void Write(absl::string_view piece) ABSL_LOCKS_EXCLUDED(mutex_);
  void End() ABSL_LOCKS_EXCLUDED(mutex_);

  // The rest is for the connection.
  struct Output {
    std::string bytes;  // as they go over the connection
    bool last = false;
  };
  Output Take() ABSL_LOCKS_EXCLUDED(mutex_);
  // The client has gone, or the connection is closed.
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);
  // The connection ends with this answer, although the client would keep it.
  void CloseAfterwards() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether another request may follow. Valid once the last output was taken.
  bool keep_alive() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class State { kWaiting, kStreaming, kEnded };

  std::string Head(const HttpReply& reply, bool whole) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddPiece(absl::string_view piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether `wake_` is to be called, without the lock.
  bool WakeOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const HttpRequest request_;
  const std::function<void()> wake_;
  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kWaiting;
  bool keep_alive_ ABSL_GUARDED_BY(mutex_);
  bool chunked_ ABSL_GUARDED_BY(mutex_) = false;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;  // and has not taken the output since
  bool behind_ ABSL_GUARDED_BY(mutex_) = false;
  std::string head_ ABSL_GUARDED_BY(mutex_);    // not taken yet
  std::string pieces_ ABSL_GUARDED_BY(mutex_);  // likewise, without chunk sizes
  std::function<void()> on_gone_ ABSL_GUARDED_BY(mutex_);
  std::function<void(bool)> on_behind_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_HTTP_EXCHANGE_H_
