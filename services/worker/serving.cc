#include "services/worker/serving.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
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
  to->step_times.Add(from.step_times);
  to->manager_wait_seconds += from.manager_wait_seconds;
}

// Whether a session ended by what a new one repairs: the connection or the manager was lost, the
// manager has fenced this worker (CANCELLED), or the machine was so busy that the hello came late
// (DEADLINE_EXCEEDED).
bool MayAttachAgain(const absl::Status& end) {
  return absl::IsUnavailable(end) || absl::IsCancelled(end) || absl::IsDeadlineExceeded(end);
}

}  // namespace

Serving::Serving(const ServingOptions& options, const LoadedModel* model, RequestQueue* queue,
                 const RankGroup* group)
    : options_(options),
      model_(model),
      queue_(queue),
      group_(group),
      channel_(MakeManagerChannel(options.manager)),
      watchdog_(options.step_timeout, &gauge_) {}

Serving::~Serving() {
  if (!thread_.joinable()) return;
  Drain(SteadyTime::InfinitePast());
  thread_.join();
}

absl::Status Serving::Attach(const std::function<bool()>& stop) {
  Attacher attacher{.name = options_.worker_name, .pool = options_.pool, .held = &held_};
  if (group_ != nullptr) attacher.drop = [this] { return DropHeldPools(*group_->host); };
  if (attachment_ != nullptr) {
    attacher.previous = attachment_->session();
    // The executor is gone, so with this nothing here writes the pages any more. The same manager
    // gives them to others then. The next manager may want the memory back, which lives on in the
    // descriptors.
    held_ = PoolAttachment::End(std::move(attachment_));
    if (group_ != nullptr) {
      if (absl::Status status = AwaitUnmapped(*group_->host); !status.ok()) return status;
    }
  }
  auto attachment =
      AttachWithRetry(channel_, attacher, model_->pool_user(), options_.attach_timeout, stop);
  if (!attachment.ok()) return attachment.status();
  attachment_ = *std::move(attachment);
  if (group_ != nullptr) {
    absl::Status status = AttachRanks(*group_->host, attachment_->response());
    if (!status.ok()) return status;
  }
  log::Info("attached to the manager", {{"manager", options_.manager},
                                        {"worker", attachment_->session().worker_id},
                                        {"pages", attachment_->view().num_pages},
                                        {"swap_slots", attachment_->view().swap.num_slots},
                                        {"lease_ttl", attachment_->session().lease_ttl}});
  return absl::OkStatus();
}

absl::Status Serving::Start(const std::function<bool()>& stop) {
  if (absl::Status status = Attach(stop); !status.ok()) return status;
  watchdog_.Start();
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

bool Serving::draining() const {
  absl::MutexLock lock(&mutex_);
  return drain_deadline_.has_value();
}

void Serving::Run() {
  pthread_setname_np(pthread_self(), "step-loop");
  absl::Status status;
  for (;;) {
    const SteadyTime start = SteadyNow();
    status = Serve();
    if (status.ok() || !MayAttachAgain(status) || draining()) break;
    log::Error("lost the session with the manager", {{"reason", status}});
    if (SteadyNow() - start < absl::Seconds(1)) absl::SleepFor(absl::Milliseconds(500));
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
  GrpcManagerLink link(channel_, attachment_->session(), [this] { return gauge_.progress(); });
  // The end of the executor is watched too, because it waits for the device.
  const absl::Cleanup unwatched = [this] { gauge_.EndLoop(); };
  auto executor = model_->MakeExecutor(attachment_->view(), options_.max_rows(), group_);
  if (!executor.ok()) return executor.status();
  const EngineOptions engine_options = {.geometry = attachment_->geometry(),
                                        .num_pages = attachment_->view().num_pages,
                                        .swap_slots = attachment_->view().swap.num_slots,
                                        .vocab = model_->config().vocab,
                                        .context = model_->config().context,
                                        .token_budget = options_.token_budget,
                                        .max_batch = options_.max_batch,
                                        .queue_timeout = options_.queue_timeout};
  Engine engine(engine_options, executor->get(), &link, queue_, &model_->tokenizer(), &gauge_);
  {
    absl::MutexLock lock(&mutex_);
    engine_ = &engine;
    if (drain_deadline_) engine.Drain(*drain_deadline_);
  }
  gauge_.BeginLoop();
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
  // Those that the step loop has not seen wait too, above all while it hangs.
  if (const std::optional<SteadyTime> unseen = queue_->oldest()) {
    counters.oldest_waiting = std::min(counters.oldest_waiting.value_or(*unseen), *unseen);
  }
  return counters;
}

void Serving::Drain(SteadyTime deadline) {
  absl::MutexLock lock(&mutex_);
  drain_deadline_ = std::min(drain_deadline_.value_or(SteadyTime::InfiniteFuture()), deadline);
  if (engine_ != nullptr) engine_->Drain(*drain_deadline_);
}

std::optional<absl::Status> Serving::Wait(absl::Duration timeout) {
  if (!ended_.WaitFor(timeout)) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  return result_;
}

}  // namespace folio::worker
