#include "services/worker/engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace folio::worker {

namespace v1 = folio::v1;

namespace {

constexpr absl::Duration kLookAfterOthers = absl::Milliseconds(500);

}  // namespace

Engine::Engine(const EngineOptions& options, model::Executor* executor, ManagerLink* link,
               RequestQueue* queue, const model::Tokenizer* tokenizer)
    : options_(options),
      executor_(executor),
      link_(link),
      queue_(queue),
      tokenizer_(tokenizer),
      depth_(executor->pipeline_depth()) {}

absl::Status Engine::Run() {
  queue_->Open([link = link_] { link->Wake(); });
  {
    absl::MutexLock lock(&mutex_);
    if (drain_deadline_) queue_->Refuse(absl::UnavailableError("the worker is shutting down"));
  }
  while (RunBoundary()) {
    Batch batch =
        ChooseBatch(sequences_, *executor_, options_.prompt_chunk, options_.geometry.page_tokens);
    // A table edit is done when a later step is. If nothing else is to run, an empty step says so.
    const bool edit_pending =
        std::any_of(sequences_.begin(), sequences_.end(),
                    [this](const auto& sequence) { return sequence->busy_until > enqueued_; });
    const bool enqueue = !batch.sequences.empty() || edit_pending;
    if (enqueue) Enqueue(std::move(batch));
    if (!enqueue && in_flight_.empty()) WaitForManager();
    const size_t behind = enqueue ? static_cast<size_t>(depth_) : 0;
    while (in_flight_.size() > behind) CollectOldest();
    PublishCounters();
  }
  if (const absl::Status fault = executor_->fault(); !fault.ok()) {
    return Stop(absl::InternalError(absl::StrCat("the device failed: ", fault.message())));
  }
  return Stop(link_->status());
}

bool Engine::RunBoundary() {
  TakeSubmissions();
  EndCancelled();
  ProcessReplies();
  // What a device that failed was told may not have been done: nothing is acknowledged any more,
  // and the manager keeps the sequences as it knows them.
  if (!link_->status().ok() || !executor_->fault().ok()) return false;
  OpenQueued();
  SendDue();
  absl::MutexLock lock(&mutex_);
  return !drain_deadline_ || !sequences_.empty() || !waiting_.empty();
}

void Engine::TakeSubmissions() {
  for (auto& submission : queue_->Take()) waiting_.push_back(std::move(submission));
}

bool Engine::DrainExpired() const {
  absl::MutexLock lock(&mutex_);
  return drain_deadline_ && absl::Now() >= *drain_deadline_;
}

void Engine::EndCancelled() {
  const bool expired = DrainExpired();
  const absl::Status shutdown = absl::UnavailableError("the worker is shutting down");
  const auto why = [&](const Submission& submission) {
    switch (submission.cancelled.load()) {
      case v1::CLOSE_REASON_UNSPECIFIED:
        return expired ? shutdown : absl::OkStatus();
      case v1::CLOSE_REASON_DEADLINE:
        return absl::DeadlineExceededError("the request's deadline has passed");
      default:
        return absl::CancelledError("the client ended the call");
    }
  };
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const absl::Status status = why(**it);
    if (!status.ok()) (*it)->sink->Done(status);
    it = status.ok() ? it + 1 : waiting_.erase(it);
  }
  for (const auto& sequence : sequences_) {
    if (sequence->phase == Phase::kClosing) continue;
    const absl::Status status = why(*sequence->submission);
    if (status.ok()) continue;
    const v1::CloseReason reason = sequence->submission->cancelled.load();
    End(sequence.get(), reason == v1::CLOSE_REASON_UNSPECIFIED ? v1::CLOSE_REASON_ERROR : reason,
        status);
  }
}

void Engine::End(Sequence* sequence, v1::CloseReason reason, const absl::Status& status) {
  if (sequence->phase == Phase::kClosing) return;
  sequence->phase = Phase::kClosing;
  sequence->close_reason = reason;
  sequence->submission->sink->Done(status);
}

void Engine::OpenQueued() {
  v1::SessionRequest request;
  while (!waiting_.empty() && sequences_.size() < options_.max_batch &&
         sequences_.size() + 1 < executor_->max_rows()) {
    auto sequence =
        std::make_unique<Sequence>(next_tag_++, std::move(waiting_.front()), tokenizer_);
    waiting_.pop_front();
    if (sequence->request().resume.has_value()) {
      *request.add_claim() = ClaimOf(*sequence);
    } else {
      *request.add_open() = OpenOf(*sequence);
    }
    sequences_.push_back(std::move(sequence));
  }
  if (request.open_size() > 0 || request.claim_size() > 0) link_->Send(std::move(request));
}

void Engine::SendDue() {
  v1::SessionRequest request;
  std::erase_if(due_acks_, [&](DueAck& due) {
    if (due.busy_until > collected_) return false;
    *request.add_ack() = std::move(due.ack);
    return true;
  });
  std::erase_if(sequences_, [&](const std::unique_ptr<Sequence>& sequence) {
    if (sequence->phase != Phase::kClosing || !sequence->opened) return false;
    if (sequence->busy_until > collected_) return false;
    v1::CloseSequence* close = request.add_close();
    close->set_sequence_id(sequence->id.value());
    close->set_lease_epoch(sequence->lease_epoch.value());
    close->set_reason(sequence->close_reason);
    if (sequence->has_slot) executor_->Release(sequence->slot);
    return true;
  });
  if (request.ack_size() > 0 || request.close_size() > 0) link_->Send(std::move(request));
}

void Engine::WaitForManager() {
  absl::Time deadline =
      executor_->depends_on_others() ? absl::Now() + kLookAfterOthers : absl::InfiniteFuture();
  {
    absl::MutexLock lock(&mutex_);
    deadline = std::min(deadline, drain_deadline_.value_or(absl::InfiniteFuture()));
  }
  const bool running = std::any_of(sequences_.begin(), sequences_.end(), [](const auto& sequence) {
    return sequence->phase == Phase::kAwaitPlan || sequence->phase == Phase::kDecode;
  });
  const absl::Time start = absl::Now();
  if (std::optional<v1::SessionReply> reply = link_->Receive(deadline)) Process(*reply);
  if (running) totals_.manager_wait_seconds += absl::ToDoubleSeconds(absl::Now() - start);
}

absl::Status Engine::Stop(absl::Status why) {
  while (!in_flight_.empty()) {
    executor_->Collect(in_flight_.front().ticket);
    in_flight_.pop_front();
  }
  const absl::Status refusal = absl::UnavailableError(
      why.ok() ? "the worker is shutting down"
               : absl::StrCat("the worker cannot go on (", why.message(), "); try again"));
  for (auto& submission : queue_->Close(refusal)) waiting_.push_back(std::move(submission));
  for (const auto& submission : waiting_) submission->sink->Done(refusal);
  waiting_.clear();
  for (const auto& sequence : sequences_) {
    End(sequence.get(), v1::CLOSE_REASON_ERROR, refusal);
    if (sequence->has_slot) executor_->Release(sequence->slot);
  }
  sequences_.clear();
  PublishCounters();
  return why;
}

void Engine::Drain(absl::Time deadline) {
  {
    absl::MutexLock lock(&mutex_);
    drain_deadline_ = std::min(drain_deadline_.value_or(absl::InfiniteFuture()), deadline);
  }
  queue_->Refuse(absl::UnavailableError("the worker is shutting down"));
  queue_->Wake();
}

void Engine::PublishCounters() {
  absl::MutexLock lock(&mutex_);
  counters_ = totals_;
  counters_.running = static_cast<uint32_t>(sequences_.size());
  counters_.queued = static_cast<uint32_t>(waiting_.size());
}

EngineCounters Engine::counters() const {
  absl::MutexLock lock(&mutex_);
  return counters_;
}

}  // namespace folio::worker
