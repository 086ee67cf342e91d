// UnreadAnswers bounds how many answers of unary calls wait for their clients. In a synchronous
// server each of them holds a thread until it is sent, and a client that gives no room by HTTP/2's
// flow control could hold as many threads as it has calls.
//
// If too many wait, the call that waits longest ends. The newest one is not refused instead,
// because then clients that never read could keep others out.
#ifndef FOLIO_SERVICES_GRPC_UNREAD_ANSWERS_H_
#define FOLIO_SERVICES_GRPC_UNREAD_ANSWERS_H_

#include <grpcpp/support/server_interceptor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace folio {

// Thread-safe.
class UnreadAnswers {
 public:
  explicit UnreadAnswers(size_t most) : most_(most) {}

  // Returns the part of a gRPC server that tells its unary calls to this, which must outlive it.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeInterceptors();

 private:
  class Interceptor;
  class Factory;
  // Begins the wait of an answer, and returns its number, which counts from 1.
  uint64_t Add(grpc_call* call);
  void Remove(uint64_t number);

  const size_t most_;
  absl::Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  // By their numbers, so that the first one waits longest. Borrowed until Remove.
  std::map<uint64_t, grpc_call*> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio

#endif  // FOLIO_SERVICES_GRPC_UNREAD_ANSWERS_H_
