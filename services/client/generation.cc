// A generation is a stream of events. When its worker is lost, another one continues it, begins it
// if no event had come, or computes it again if its sequence is gone.
#include <grpcpp/support/sync_stream.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/base/steady_time.h"
#include "services/base/steady_wait.h"
#include "services/client/channel.h"
#include "services/client/client_state.h"
#include "services/client/resumption.h"
#include "services/client/utf8_check.h"

namespace folio::client {
namespace {

using folio::v1::GenerateRequest;
using folio::v1::GenerateResponse;
using folio::v1::Inference;

// The timeout of one attempt's connection.
constexpr absl::Duration kConnect = absl::Seconds(1);

// One call of Generate, at one worker.
class Attempt {
 public:
  Attempt(Endpoint endpoint, Inference::Stub& stub, const GenerateRequest& request,
          const CallOptions& options)
      : endpoint_(std::move(endpoint)) {
    Prepare(endpoint_, options, &context_);
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
      : client_(std::move(client)), options_(std::move(options)), resumption_(request, options_) {
    status_ = CheckUtf8(request);
    ended_ = !status_.ok();
    if (ended_) return;
    Begin(std::make_unique<Attempt>(client_->endpoint, *client_->stub, request, options_));
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
      if (!attempt_->Read(&event)) {
        End();
      } else if (resumption_.Take(&event)) {
        return event;
      } else if (resumption_.misunderstood()) {
        attempt_->Cancel();
      }
    }
    return std::nullopt;
  }

  const absl::Status& status() const { return status_; }
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    changed_.SignalAll();
    if (attempt_ != nullptr) attempt_->Cancel();
  }

 private:
  void Begin(std::unique_ptr<Attempt> attempt) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    attempt_ = std::move(attempt);
    if (cancelled_) attempt_->Cancel();
  }

  // The stream has ended. Asks one worker after the other to continue, or ends the generation.
  void End() {
    absl::Status why = attempt_->Finish();
    if (why.ok() && !resumption_.finished()) {
      why = absl::InternalError(attempt_->name() + " ended the stream without a result");
    }
    while (MayTryAgain(why)) {
      // The worker that was lost comes last.
      if (!resumption_.stays()) at_ = (at_ + 1) % client_->addresses.size();
      why = AskAt(client_->addresses[at_]);
      if (why.ok()) return;
    }
    ended_ = true;
    const bool by_client = Cancelled() && (absl::IsCancelled(why) || absl::IsUnavailable(why));
    status_ = by_client ? absl::CancelledError("the call was cancelled")
                        : resumption_.Ended(std::move(why));
  }

  bool Cancelled() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return cancelled_ || options_.cancellation.cancelled();
  }

  // Waits a little after an attempt that ended because of `why`. Returns false if it was the last.
  bool MayTryAgain(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (!resumption_.Follows(why, Cancelled())) return false;
    absl::MutexLock lock(&mutex_);
    return !changed_.Await(&mutex_, SteadyNow() + resumption_.pause(),
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return cancelled_; });
  }

  absl::Status AskAt(const std::string& address) {
    ConnectOptions connect = client_->connect;
    connect.timeout = kConnect;
    connect.wait_for_server = false;
    connect.check = true;
    const GenerateRequest request = resumption_.NextRequest();
    absl::StatusOr<Endpoint> endpoint = Connect("worker", address, connect);
    if (!endpoint.ok()) return endpoint.status();
    const auto stub = Inference::NewStub(endpoint->channel);
    Begin(std::make_unique<Attempt>(*std::move(endpoint), *stub, request, options_));
    return absl::OkStatus();
  }

  const std::shared_ptr<Client::State> client_;
  const CallOptions options_;
  Resumption resumption_;
  size_t at_ = 0;  // of the client's addresses
  bool ended_ = false;
  absl::Status status_;

  absl::Mutex mutex_;
  SteadyCondVar changed_;  // cancelled_
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
