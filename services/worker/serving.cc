#include "services/worker/serving.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "services/runtime/logging.h"
#include "services/worker/link/grpc_manager_link.h"
#include "services/worker/link/manager_channel.h"
#include "services/worker/ranks/rank_leader.h"

namespace folio::worker {
namespace {

// Adds what grows, and leaves what is true now.
void AddTotals(const EngineCounters& from, EngineCounters* to) {
  to->steps += from.steps;
  to->prompt_tokens += from.prompt_tokens;
  to->decode_tokens += from.decode_tokens;
  to->step_seconds += from.step_seconds;
  to->manager_wait_seconds += from.manager_wait_seconds;
}

}  // namespace

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
  // While the last manager's pool is mapped here, its memory stays allocated, and the next manager
  // may need it.
  attachment_.reset();
  auto attachment = AttachWithRetry(channel_, options_.worker_name, model_->pool_user(),
                                    options_.attach_timeout, stop);
  if (!attachment.ok()) return attachment.status();
  attachment_ = *std::move(attachment);
  if (group_ != nullptr) {
    absl::Status status = AttachRanks(*group_->host, attachment_->response());
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
    // Only a lost connection can be repaired here. A fenced worker must end, because the manager
    // cannot reuse its pages before the process is gone.
    if (status.ok() || !absl::IsUnavailable(status) || draining()) break;
    log::Error("lost the connection to the manager", {{"reason", status}});
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
  // Declared first so that heartbeats run while the executor is built, which may take longer than
  // the lease, and destroyed last so that the session closes only after the pages are out of use.
  GrpcManagerLink link(channel_, attachment_->session());
  auto executor = model_->MakeExecutor(attachment_->view(), options_.max_rows(), group_);
  if (!executor.ok()) return executor.status();
  const EngineOptions engine_options = {.geometry = attachment_->geometry(),
                                        .num_pages = attachment_->view().num_pages,
                                        .token_budget = options_.token_budget,
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
  AddTotals(engine.counters(), &ended_engines_);
  return status;
}

EngineCounters Serving::counters() const {
  absl::MutexLock lock(&mutex_);
  EngineCounters counters;
  if (engine_ != nullptr) counters = engine_->counters();
  AddTotals(ended_engines_, &counters);
  return counters;
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
