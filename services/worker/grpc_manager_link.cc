#include "services/worker/grpc_manager_link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/common/grpc_status.h"

namespace folio::worker {

namespace v1 = folio::v1;

GrpcManagerLink::GrpcManagerLink(std::shared_ptr<grpc::Channel> channel,
                                 const SessionOptions& options)
    : lease_ttl_(options.lease_ttl), stub_(v1::KvManager::NewStub(std::move(channel))) {
  v1::SessionRequest hello;
  hello.mutable_hello()->set_worker_id(options.worker_id);
  hello.mutable_hello()->set_session_token(options.session_token);
  Send(std::move(hello));
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

uint64_t GrpcManagerLink::Send(v1::SessionRequest request) {
  absl::MutexLock lock(&mutex_);
  const uint64_t step = ++last_step_;
  if (ended_) return step;
  request.set_step(step);
  outbox_.push_back(std::move(request));
  return step;
}

bool GrpcManagerLink::Silent() const {
  return !unanswered_.empty() && absl::Now() - unanswered_.front().at > lease_ttl_;
}

std::optional<v1::SessionRequest> GrpcManagerLink::NextRequest() {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !outbox_.empty() || goodbye_ || ended_;
  };
  const bool asked = mutex_.AwaitWithTimeout(absl::Condition(&ready), lease_ttl_ / 3);
  if (ended_ || (asked && outbox_.empty())) return std::nullopt;
  if (Silent()) {
    inbox_.Fail(absl::UnavailableError(
        absl::StrCat("the manager has not answered for ", absl::FormatDuration(lease_ttl_))));
    context_.TryCancel();
    return std::nullopt;
  }
  v1::SessionRequest request;
  if (asked) {
    request = std::move(outbox_.front());
    outbox_.pop_front();
  } else {
    request.set_step(++last_step_);
  }
  unanswered_.push_back({request.step(), absl::Now()});
  return request;
}

void GrpcManagerLink::Write() {
  while (std::optional<v1::SessionRequest> request = NextRequest()) {
    if (!stream_->Write(*request)) return;  // the reader learns why
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
    // Replies to commits count even when they are empty: a sequence may wait for just that.
    inbox_.Push(std::exchange(reply, {}));
  }
  absl::Status why = FromGrpcStatus(stream_->Finish());
  if (why.ok()) why = absl::UnavailableError("the manager ended the session");
  inbox_.Fail(std::move(why));
  absl::MutexLock lock(&mutex_);
  ended_ = true;
}

}  // namespace folio::worker
