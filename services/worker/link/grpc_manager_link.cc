#include "services/worker/link/grpc_manager_link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/grpc/grpc_status.h"
#include "services/wire/session.h"

namespace folio::worker {

namespace v1 = folio::v1;

GrpcManagerLink::GrpcManagerLink(std::shared_ptr<grpc::Channel> channel,
                                 const SessionOptions& options,
                                 std::function<StepProgress()> progress)
    : options_(options),
      progress_(std::move(progress)),
      stub_(v1::KvManager::NewStub(std::move(channel))) {
  Send({});  // Write adds the hello to the first request
  stream_ = stub_->Session(&context_);
  reader_ = std::thread([this] { Read(); });
  writer_ = std::thread([this] { Write(); });
  watcher_ = std::thread([this] { Watch(); });
}

GrpcManagerLink::~GrpcManagerLink() {
  {
    absl::MutexLock lock(&mutex_);
    goodbye_ = true;
    writable_.SignalAll();
    const auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; };
    if (!finished_.Await(&mutex_, SteadyNow() + absl::Seconds(1), ended)) context_.TryCancel();
  }
  watcher_.join();
  writer_.join();
  reader_.join();
}

uint64_t GrpcManagerLink::Send(SessionRequest request) {
  absl::MutexLock lock(&mutex_);
  const uint64_t step = ++last_step_;
  if (ended_) return step;
  request.step = step;
  outbox_.push_back(std::move(request));
  writable_.SignalAll();
  return step;
}

SteadyTime GrpcManagerLink::SilentAt() const {
  const SteadyTime since = unanswered_.empty() ? SteadyNow() : unanswered_.front().time;
  return since + options_.lease_ttl;
}

void GrpcManagerLink::Watch() {
  absl::MutexLock lock(&mutex_);
  const auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; };
  while (!finished_.Await(&mutex_, SilentAt(), ended)) {
    if (SteadyNow() < SilentAt()) continue;
    inbox_.Fail(absl::UnavailableError(absl::StrCat("the manager has not answered for ",
                                                    absl::FormatDuration(options_.lease_ttl))));
    context_.TryCancel();  // ends a write that is blocked, too
    return;
  }
}

std::optional<SessionRequest> GrpcManagerLink::NextRequest() {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !outbox_.empty() || goodbye_ || ended_;
  };
  const bool in_time = writable_.Await(&mutex_, SteadyNow() + options_.lease_ttl / 3, ready);
  if (ended_ || (in_time && outbox_.empty())) return std::nullopt;
  SessionRequest request;
  if (in_time) {
    request = std::move(outbox_.front());
    outbox_.pop_front();
  } else {
    request.step = ++last_step_;
  }
  unanswered_.push_back({request.step, SteadyNow()});
  return request;
}

void GrpcManagerLink::Write() {
  bool first = true;
  while (std::optional<SessionRequest> request = NextRequest()) {
    request->progress = progress_();  // as late as possible, and in heartbeats too
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
  bool answered = false;
  while (stream_->Read(&reply)) {
    answered = true;
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
  // The session has not begun: all of the manager's threads were taken, or the lease had ended
  // since Attach, or the manager is another one by now. The next attachment may have one.
  if (!answered && (absl::IsResourceExhausted(why) || absl::IsNotFound(why))) {
    why = absl::UnavailableError(why.message());
  }
  inbox_.Fail(std::move(why));
  absl::MutexLock lock(&mutex_);
  ended_ = true;
  writable_.SignalAll();
  finished_.SignalAll();
}

}  // namespace folio::worker
