// WriteStarter starts the writes of calls on a thread of its own. Starting one takes microseconds,
// because gRPC serialises the message and hands it to the socket meanwhile. The step loop has a
// message for every stream of a step, and the next step would wait for all of them.
#ifndef FOLIO_SERVICES_WORKER_RPC_WRITE_STARTER_H_
#define FOLIO_SERVICES_WORKER_RPC_WRITE_STARTER_H_

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace folio::worker {

// A call with a message to write.
class WritingCall {
 public:
  // From the starter's thread.
  virtual void StartWriteNow() = 0;

 protected:
  ~WritingCall() = default;
};

// Thread-safe.
class WriteStarter {
 public:
  WriteStarter();
  // Starts those that are left.
  ~WriteStarter();
  WriteStarter(const WriteStarter&) = delete;
  WriteStarter& operator=(const WriteStarter&) = delete;

  // Starts it soon, in the order of these calls. `call` is borrowed until then.
  void Start(WritingCall* call) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !waiting_.empty() || ending_; }

  absl::Mutex mutex_;
  std::vector<WritingCall*> waiting_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_WRITE_STARTER_H_
