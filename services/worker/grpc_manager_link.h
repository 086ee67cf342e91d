// The manager link over the Session stream. One thread writes, and sends a heartbeat whenever
// nothing else was to be sent; one reads. So neither a long step nor a slow manager lets the lease
// lapse or stops the step loop.
#ifndef FOLIO_SERVICES_WORKER_GRPC_MANAGER_LINK_H_
#define FOLIO_SERVICES_WORKER_GRPC_MANAGER_LINK_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "folio/v1/kv_manager.grpc.pb.h"
#include "services/worker/manager_link.h"
#include "services/worker/reply_inbox.h"

namespace folio::worker {

struct SessionOptions {
  std::string worker_id;
  std::string session_token;
  absl::Duration lease_ttl;  // a heartbeat goes out after a third of it
};

class GrpcManagerLink final : public ManagerLink {
 public:
  // Opens the stream and says hello. A refusal shows in status(). The link fails with UNAVAILABLE
  // when the manager leaves a request unanswered for `lease_ttl`: by then it may have fenced us.
  GrpcManagerLink(std::shared_ptr<grpc::Channel> channel, const SessionOptions& options);
  // Sends what is queued and says goodbye; what does not end within a second is cut off.
  ~GrpcManagerLink() override;

  uint64_t Send(folio::v1::SessionRequest request) override;
  std::optional<folio::v1::SessionReply> TryReceive() override { return inbox_.TryPop(); }
  std::optional<folio::v1::SessionReply> Receive(absl::Time deadline) override {
    return inbox_.Pop(deadline);
  }
  void Wake() override { inbox_.Wake(); }
  absl::Status status() const override { return inbox_.status(); }

 private:
  struct Sent {
    uint64_t step;
    absl::Time at;
  };

  void Write();
  void Read();
  // The next request to write: a queued one, or a heartbeat when the pace asks for one. Empty: the
  // end.
  std::optional<folio::v1::SessionRequest> NextRequest();
  bool Silent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration lease_ttl_;
  std::unique_ptr<folio::v1::KvManager::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<folio::v1::SessionRequest, folio::v1::SessionReply>>
      stream_;
  ReplyInbox inbox_;

  absl::Mutex mutex_;
  std::deque<folio::v1::SessionRequest> outbox_ ABSL_GUARDED_BY(mutex_);
  std::deque<Sent> unanswered_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_step_ ABSL_GUARDED_BY(mutex_) = 0;
  bool goodbye_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // the reader saw the end

  std::thread reader_, writer_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_GRPC_MANAGER_LINK_H_
