// A generation is a stream of events that another worker continues when its worker is lost.
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "services/client/channel.h"
#include "services/client/client_state.h"
#include "services/client/utf8_check.h"

namespace folio::client {
namespace {

using folio::v1::GenerateRequest;
using folio::v1::GenerateResponse;
using folio::v1::Inference;

// The pause between two attempts to resume, and the timeout of one attempt's connection.
constexpr absl::Duration kPause = absl::Milliseconds(100);
constexpr absl::Duration kConnect = absl::Seconds(1);

// One call of Generate, at one worker.
class Attempt {
 public:
  Attempt(Endpoint endpoint, Inference::Stub& stub, const GenerateRequest& request,
          const CallOptions& options)
      : endpoint_(std::move(endpoint)) {
    Prepare(options, &context_);
    reader_ = stub.Generate(&context_, request);
    running_.emplace(options.cancellation, &context_);
  }

  bool Read(GenerateResponse* event) { return reader_->Read(event); }
  absl::Status Finish() {
    absl::Status status = FromGrpc(endpoint_, reader_->Finish());
    running_.reset();
    return status;
  }
  void Cancel() { context_.TryCancel(); }
  const std::string& name() const { return endpoint_.name; }

 private:
  const Endpoint endpoint_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<GenerateResponse>> reader_;
  std::optional<RunningCall> running_;
};

}  // namespace

class Generation::State {
 public:
  State(std::shared_ptr<Client::State> client, const GenerateRequest& request, CallOptions options)
      : client_(std::move(client)), options_(std::move(options)) {
    status_ = CheckUtf8(request);
    ended_ = !status_.ok();
    if (ended_) return;
    Begin(std::make_unique<Attempt>(client_->endpoint, *client_->stub, request, options_));
    // A request to resume by hand names the tokens that came before.
    *resume_.mutable_received_tokens() = request.resume().received_tokens();
  }

  ~State() {
    if (ended_) return;
    Cancel();
    while (Next().has_value()) {
    }
  }

  std::optional<GenerateResponse> Next() {
    while (!ended_) {
      GenerateResponse event;
      if (attempt_->Read(&event)) {
        Note(event);
        return event;
      }
      absl::Status why = attempt_->Finish();
      if (why.ok() && !finished_) {
        why = absl::InternalError(attempt_->name() + " ended the stream without a result");
      }
      if (absl::IsUnavailable(why) && !finished_ && Resume(&why)) continue;
      ended_ = true;
      status_ = std::move(why);
    }
    return std::nullopt;
  }

  const absl::Status& status() const { return status_; }
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (attempt_ != nullptr) attempt_->Cancel();
  }

 private:
  void Begin(std::unique_ptr<Attempt> attempt) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    attempt_ = std::move(attempt);
    if (cancelled_) attempt_->Cancel();
  }

  void Note(const GenerateResponse& event) {
    finished_ = finished_ || event.has_finished();
    if (event.has_started()) {
      resume_.set_sequence_id(event.started().sequence_id());
      resume_.set_resume_token(event.started().resume_token());
    }
    resume_.mutable_received_tokens()->MergeFrom(event.chunk().tokens());
    if (event.has_chunk() || event.has_prefill()) until_.reset();
  }

  bool Cancelled() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return cancelled_ || options_.cancellation.cancelled();
  }

  // Waits a little. Returns false if the attempts must end.
  bool MayTryAgain(absl::Time until) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (absl::Now() + kPause >= until || Cancelled()) return false;
    absl::MutexLock lock(&mutex_);
    return !mutex_.AwaitWithTimeout(absl::Condition(&cancelled_), kPause);
  }

  // Asks one worker after the other to continue the generation, which ended because of `why`. If
  // none does, `why` also says so.
  bool Resume(absl::Status* why) {
    if (resume_.resume_token().empty()) return false;
    if (!until_) until_ = std::min(absl::Now() + options_.resume, options_.deadline);
    absl::Status last;
    while (MayTryAgain(*until_)) {
      // The worker that was lost comes last.
      at_ = (at_ + 1) % client_->addresses.size();
      last = ResumeAt(client_->addresses[at_]);
      if (last.ok()) return true;
      if (!absl::IsUnavailable(last)) break;
    }
    if (Cancelled()) {
      *why = absl::CancelledError("the call was cancelled");
    } else if (!last.ok()) {
      *why =
          absl::UnavailableError(absl::StrCat(why->message(), "; not resumed: ", last.message()));
    }
    return false;
  }

  absl::Status ResumeAt(const std::string& address) {
    ConnectOptions connect;
    connect.timeout = kConnect;
    absl::StatusOr<Endpoint> endpoint = Connect("worker", address, connect);
    if (!endpoint.ok()) return endpoint.status();
    const auto stub = Inference::NewStub(endpoint->channel);
    GenerateRequest request;
    *request.mutable_resume() = resume_;
    Begin(std::make_unique<Attempt>(*std::move(endpoint), *stub, request, options_));
    GenerateResponse event;
    // The stream begins with events that the caller already has.
    if (attempt_->Read(&event)) return absl::OkStatus();
    absl::Status status = attempt_->Finish();
    return status.ok() ? absl::InternalError("a stream without events") : status;
  }

  const std::shared_ptr<Client::State> client_;
  const CallOptions options_;
  folio::v1::Resume resume_;  // as of the last event
  size_t at_ = 0;             // of the client's addresses
  // The deadline of the attempts. It is set from a loss until a new event comes, so that attempts
  // also end if each worker is lost as soon as it has the sequence.
  std::optional<absl::Time> until_;
  bool finished_ = false;
  bool ended_ = false;
  absl::Status status_;

  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // Changed under the lock and only by the thread of Next, which may therefore read it without.
  std::unique_ptr<Attempt> attempt_;
};

Generation::Generation(std::unique_ptr<State> state) : state_(std::move(state)) {}
Generation::Generation(Generation&& other) noexcept = default;
Generation& Generation::operator=(Generation&& other) noexcept = default;
Generation::~Generation() = default;

std::optional<GenerateResponse> Generation::Next() { return state_->Next(); }
absl::Status Generation::status() const { return state_->status(); }
void Generation::Cancel() { state_->Cancel(); }

Generation Client::Start(const GenerateRequest& request, const CallOptions& options) {
  return Generation(std::make_unique<Generation::State>(state_, request, options));
}

}  // namespace folio::client
