#include "services/worker/serving.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "services/common/logging.h"
#include "services/worker/grpc_manager_link.h"
#include "services/worker/manager_channel.h"
#include "services/worker/rank_life.h"

namespace folio::worker {

Serving::Serving(const ServingOptions& options, const LoadedModel* model, RequestQueue* queue,
                 const RankGroup* group)
    : options_(options),
      model_(model),
      queue_(queue),
      group_(group),
      channel_(MakeManagerChannel(options.manager)) {}

Serving::~Serving() {
  if (!thread_.joinable()) return;
  Drain(absl::InfinitePast());
  thread_.join();
}

absl::Status Serving::Attach(const std::function<bool()>& stop) {
  // As long as it is mapped here, the last manager's pool takes memory that the next one wants.
  attachment_.reset();
  auto attachment = AttachWithRetry(channel_, options_.worker_name, model_->pool_user(),
                                    options_.attach_timeout, stop);
  if (!attachment.ok()) return attachment.status();
  attachment_ = *std::move(attachment);
  if (group_ != nullptr) {
    absl::Status status = TellRanksToAttach(*group_->host, attachment_->response());
    if (!status.ok()) return status;
  }
  log::Info("attached to the manager", {{"manager", options_.manager},
                                        {"worker", attachment_->session().worker_id},
                                        {"pages", attachment_->view().num_pages},
                                        {"lease_ttl", attachment_->session().lease_ttl}});
  return absl::OkStatus();
}

absl::Status Serving::Start(const std::function<bool()>& stop) {
  if (absl::Status status = Attach(stop); !status.ok()) return status;
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

bool Serving::draining() const {
  absl::MutexLock lock(&mutex_);
  return drain_deadline_.has_value();
}

void Serving::Run() {
  absl::Status status;
  for (;;) {
    const absl::Time start = absl::Now();
    status = Serve();
    // Only a lost connection can be mended here. A fenced worker must end: until its process is
    // gone the manager cannot give its pages to anyone.
    if (status.ok() || !absl::IsUnavailable(status) || draining()) break;
    log::Error("the manager was lost", {{"reason", status}});
    if (absl::Now() - start < absl::Seconds(1)) absl::SleepFor(absl::Milliseconds(500));
    if (status = Attach([this] { return draining(); }); !status.ok()) break;
  }
  if (draining()) status = absl::OkStatus();
  {
    absl::MutexLock lock(&mutex_);
    result_ = std::move(status);
  }
  ended_.Notify();
}

absl::Status Serving::Serve() {
  // First, and last to go: an executor takes longer to make than the lease waits for us, and when
  // we say goodbye nothing touches the pages any more.
  GrpcManagerLink link(channel_, attachment_->session());
  auto executor = model_->MakeExecutor(attachment_->view(), options_.max_rows(), group_);
  if (!executor.ok()) return executor.status();
  const EngineOptions engine_options = {.geometry = attachment_->geometry(),
                                        .num_pages = attachment_->view().num_pages,
                                        .prompt_chunk = options_.prompt_chunk,
                                        .max_batch = options_.max_batch};
  Engine engine(engine_options, executor->get(), &link, queue_, &model_->tokenizer());
  {
    absl::MutexLock lock(&mutex_);
    engine_ = &engine;
    if (drain_deadline_) engine.Drain(*drain_deadline_);
  }
  serving_ = true;
  absl::Status status = engine.Run();
  serving_ = false;
  absl::MutexLock lock(&mutex_);
  engine_ = nullptr;
  return status;
}

void Serving::Drain(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  drain_deadline_ = std::min(drain_deadline_.value_or(absl::InfiniteFuture()), deadline);
  if (engine_ != nullptr) engine_->Drain(*drain_deadline_);
}

std::optional<absl::Status> Serving::Wait(absl::Duration timeout) {
  if (!ended_.WaitForNotificationWithTimeout(timeout)) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  return result_;
}

}  // namespace folio::worker
