// GrpcManagerLink is the manager link over the Session stream. One thread writes, and sends a
// heartbeat when the step loop sends nothing; another thread reads. So a long step does not let the
// lease expire, and a slow manager does not stop the step loop.
//
// A third thread ends the stream when the manager stands still. The writer cannot do that: once the
// stream's flow-control window is full, a write blocks for as long as the manager does not read.
#ifndef FOLIO_SERVICES_WORKER_LINK_GRPC_MANAGER_LINK_H_
#define FOLIO_SERVICES_WORKER_LINK_GRPC_MANAGER_LINK_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "folio/v1/kv_manager.grpc.pb.h"
#include "services/base/steady_time.h"
#include "services/base/steady_wait.h"
#include "services/worker/link/manager_link.h"
#include "services/worker/link/reply_inbox.h"

namespace folio::worker {

struct SessionOptions {
  std::string worker_id;
  std::string session_token;
  absl::Duration lease_ttl;  // a heartbeat is sent after a third of it
  uint32_t num_layers = 0;   // of the pool; replies are checked against it
};

class GrpcManagerLink final : public ManagerLink {
 public:
  // Opens the stream and says hello. A refusal shows in status(). The link fails with UNAVAILABLE
  // when the manager leaves a request unanswered for `lease_ttl`: by then it may have fenced us.
  // Each request tells what `progress` returns then, on the writer's thread.
  //
  // Requests that the manager does not read wait in memory until then. They are few: the step loop
  // has at most `max_batch` sequences, and a sequence that gets no answer soon lacks pages.
  GrpcManagerLink(std::shared_ptr<grpc::Channel> channel, const SessionOptions& options,
                  std::function<StepProgress()> progress);
  // Sends what is queued and ends the stream, for which the manager has one second.
  ~GrpcManagerLink() override;

  uint64_t Send(SessionRequest request) override;
  std::optional<SessionReply> TryReceive() override { return inbox_.TryPop(); }
  std::optional<SessionReply> Receive(SteadyTime deadline) override { return inbox_.Pop(deadline); }
  void Wake() override { inbox_.Wake(); }
  absl::Status status() const override { return inbox_.status(); }

 private:
  struct Sent {
    uint64_t step;
    SteadyTime time;
  };

  void Write();
  void Read();
  void Watch();
  // The next request to write: a queued one, or a heartbeat after a third of the lease without one.
  // Empty when there is nothing more to write.
  std::optional<SessionRequest> NextRequest();
  // When the manager will have been silent for too long unless it answers before.
  SteadyTime SilentAt() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionOptions options_;
  const std::function<StepProgress()> progress_;
  std::unique_ptr<folio::v1::KvManager::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<folio::v1::SessionRequest, folio::v1::SessionReply>>
      stream_;
  ReplyInbox inbox_;

  absl::Mutex mutex_;
  SteadyCondVar writable_;  // the outbox, the goodbye or the end
  SteadyCondVar finished_;  // the end
  std::deque<SessionRequest> outbox_ ABSL_GUARDED_BY(mutex_);
  std::deque<Sent> unanswered_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_step_ ABSL_GUARDED_BY(mutex_) = 0;
  bool goodbye_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // the reader saw the end

  std::thread reader_, writer_, watcher_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_LINK_GRPC_MANAGER_LINK_H_
