#include "services/worker/link/grpc_manager_link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/grpc/grpc_status.h"
#include "services/wire/session.h"

namespace folio::worker {

namespace v1 = folio::v1;

GrpcManagerLink::GrpcManagerLink(std::shared_ptr<grpc::Channel> channel,
                                 const SessionOptions& options)
    : options_(options), stub_(v1::KvManager::NewStub(std::move(channel))) {
  Send({});  // Write adds the hello to the first request
  stream_ = stub_->Session(&context_);
  reader_ = std::thread([this] { Read(); });
  writer_ = std::thread([this] { Write(); });
}

GrpcManagerLink::~GrpcManagerLink() {
  {
    absl::MutexLock lock(&mutex_);
    goodbye_ = true;
    const auto done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&done), absl::Seconds(1))) context_.TryCancel();
  }
  writer_.join();
  reader_.join();
}

uint64_t GrpcManagerLink::Send(SessionRequest request) {
  absl::MutexLock lock(&mutex_);
  const uint64_t step = ++last_step_;
  if (ended_) return step;
  request.step = step;
  outbox_.push_back(std::move(request));
  return step;
}

bool GrpcManagerLink::ManagerIsSilent() const {
  return !unanswered_.empty() && absl::Now() - unanswered_.front().time > options_.lease_ttl;
}

std::optional<SessionRequest> GrpcManagerLink::NextRequest() {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !outbox_.empty() || goodbye_ || ended_;
  };
  const bool in_time = mutex_.AwaitWithTimeout(absl::Condition(&ready), options_.lease_ttl / 3);
  if (ended_ || (in_time && outbox_.empty())) return std::nullopt;
  if (ManagerIsSilent()) {
    inbox_.Fail(absl::UnavailableError(absl::StrCat("the manager has not answered for ",
                                                    absl::FormatDuration(options_.lease_ttl))));
    context_.TryCancel();
    return std::nullopt;
  }
  SessionRequest request;
  if (in_time) {
    request = std::move(outbox_.front());
    outbox_.pop_front();
  } else {
    request.step = ++last_step_;
  }
  unanswered_.push_back({request.step, absl::Now()});
  return request;
}

void GrpcManagerLink::Write() {
  bool first = true;
  while (std::optional<SessionRequest> request = NextRequest()) {
    v1::SessionRequest message = wire::ToProto(*request);
    if (std::exchange(first, false)) {
      message.mutable_hello()->set_worker_id(options_.worker_id);
      message.mutable_hello()->set_session_token(options_.session_token);
    }
    if (!stream_->Write(message)) return;  // the reader learns why
  }
  stream_->WritesDone();
}

void GrpcManagerLink::Read() {
  v1::SessionReply reply;
  while (stream_->Read(&reply)) {
    {
      absl::MutexLock lock(&mutex_);
      while (!unanswered_.empty() && unanswered_.front().step <= reply.step()) {
        unanswered_.pop_front();
      }
    }
    // Empty replies count too, because a sequence may wait for the answer to its commit.
    inbox_.Push(wire::FromProto(reply, options_.num_layers));
  }
  absl::Status why = FromGrpcStatus(stream_->Finish());
  if (why.ok()) why = absl::UnavailableError("the manager ended the session");
  inbox_.Fail(std::move(why));
  absl::MutexLock lock(&mutex_);
  ended_ = true;
}

}  // namespace folio::worker
