#include "services/worker/engine/engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/base/check.h"

namespace folio::worker {
namespace {

// While nothing runs, an executor that depends on other processes is asked this often if they live.
constexpr absl::Duration kPeerCheckInterval = absl::Milliseconds(500);

absl::Status ShuttingDown() { return absl::UnavailableError("the worker is shutting down"); }

// Why a request must end before its time; OK if it need not.
absl::Status WhyEnded(const Submission& submission, bool drain_expired) {
  switch (submission.cancelled.load()) {
    case CloseReason::kUnspecified:
      return drain_expired ? ShuttingDown() : absl::OkStatus();
    case CloseReason::kDeadline:
      return absl::DeadlineExceededError("the request's deadline has passed");
    default:
      return absl::CancelledError("the client ended the call");
  }
}

// The pages that the newest token filled, in the order of their layers. They are read when the step
// is enqueued, because the next step may begin other pages.
std::vector<PageRef> FilledPages(const model::BlockTables& table) {
  const CacheGeometry& geometry = table.geometry();
  std::vector<PageRef> filled;
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    if (table.resident(LayerIndex(layer)) % geometry.page_tokens != 0) continue;
    filled.push_back(table.NewestPage(LayerIndex(layer)));
  }
  return filled;
}

}  // namespace

Engine::Engine(const EngineOptions& options, model::Executor* executor, ManagerLink* link,
               RequestQueue* queue, const model::Tokenizer* tokenizer)
    : options_(options),
      executor_(executor),
      link_(link),
      queue_(queue),
      scheduler_(options.token_budget, executor->max_rows(), &executor->tables()),
      session_(options, executor, link, tokenizer, &steps_) {}

absl::Status Engine::Run() {
  queue_->Open([link = link_] { link->Wake(); });
  if (drain_deadline().has_value()) queue_->Refuse(ShuttingDown());
  const auto depth = static_cast<size_t>(executor_->pipeline_depth());
  while (RunBoundary()) {
    const SequenceList& sequences = session_.sequences();
    const Batch batch = scheduler_.ChooseBatch(sequences);
    // A table edit is done when a later step is. If nothing else is to run, an empty step says so.
    const bool edit_pending =
        std::any_of(sequences.begin(), sequences.end(), [this](const auto& sequence) {
          return sequence->state().progress().busy_until > steps_.enqueued;
        });
    const bool enqueue = !batch.sequences.empty() || edit_pending;
    if (enqueue) Enqueue(batch);
    if (!enqueue && in_flight_.empty()) WaitForManager();
    const size_t behind = enqueue ? depth : 0;
    while (in_flight_.size() > behind) CollectOldest();
    PublishCounters();
  }
  if (const absl::Status fault = executor_->fault(); !fault.ok()) {
    return Stop(absl::InternalError(absl::StrCat("the device failed: ", fault.message())));
  }
  return Stop(link_->status());
}

bool Engine::RunBoundary() {
  for (auto& submission : queue_->Take()) waiting_.push_back(std::move(submission));
  EndCancelled();
  session_.ApplyReplies();
  // A device that failed may not have done what it was told. So nothing is acknowledged any more,
  // and the manager keeps the sequences as it knows them.
  if (!link_->status().ok() || !executor_->fault().ok()) return false;
  OpenQueued();
  session_.SendDue();
  return !drain_deadline().has_value() || !session_.sequences().empty() || !waiting_.empty();
}

void Engine::EndCancelled() {
  const bool expired = absl::Now() >= drain_deadline().value_or(absl::InfiniteFuture());
  std::erase_if(waiting_, [&](const std::shared_ptr<Submission>& submission) {
    const absl::Status why = WhyEnded(*submission, expired);
    if (!why.ok()) submission->sink->OnEnd(why);
    return !why.ok();
  });
  for (const auto& sequence : session_.sequences()) {
    const CloseReason cancelled = sequence->submission().cancelled.load();
    const absl::Status why = WhyEnded(sequence->submission(), expired);
    if (why.ok()) continue;
    sequence->End(cancelled == CloseReason::kUnspecified ? CloseReason::kError : cancelled, why);
  }
}

void Engine::OpenQueued() {
  std::vector<std::shared_ptr<Submission>> admitted;
  const auto room = [&] {
    const size_t running = session_.sequences().size() + admitted.size();
    return running < options_.max_batch && running + 1 < executor_->max_rows();
  };
  while (!waiting_.empty() && room()) {
    admitted.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  if (!admitted.empty()) session_.Open(std::move(admitted));
}

void Engine::WaitForManager() {
  absl::Time deadline = drain_deadline().value_or(absl::InfiniteFuture());
  if (executor_->depends_on_others()) {
    deadline = std::min(deadline, absl::Now() + kPeerCheckInterval);
  }
  const SequenceList& sequences = session_.sequences();
  const bool running = std::any_of(sequences.begin(), sequences.end(), [](const auto& sequence) {
    const Phase phase = sequence->state().phase();
    return phase == Phase::kAwaitPlan || phase == Phase::kDecode || phase == Phase::kAwaitReply;
  });
  const absl::Time start = absl::Now();
  session_.AwaitReply(deadline);
  if (running) totals_.manager_wait_seconds += absl::ToDoubleSeconds(absl::Now() - start);
}

void Engine::Enqueue(const Batch& batch) {
  const absl::Time start = absl::Now();
  InFlight step;
  step.ticket = executor_->Enqueue(batch.step);
  totals_.step_seconds += absl::ToDoubleSeconds(absl::Now() - start);
  ++totals_.steps;
  ++steps_.enqueued;
  step.results.reserve(batch.sequences.size());
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    Sequence* sequence = batch.sequences[i];
    const model::StepSegment& segment = batch.step.segments[i];
    const model::BlockTables& table = executor_->tables().at(segment.slot);
    CacheCounters& counters = sequence->counters();
    counters.peak_tokens = std::max(counters.peak_tokens, table.most_resident());
    StepResult result;
    result.sequence = sequence;
    result.output = segment.want_output;
    if (segment.prompt) {
      totals_.prompt_tokens += segment.tokens.size();
    } else {
      totals_.decode_tokens += 1;
      result.filled = FilledPages(table);
    }
    sequence->state().OnEnqueued(segment, steps_.enqueued, !result.filled.empty());
    result.logical_length = sequence->state().progress().fed;
    result.awaits_reply = sequence->state().phase() == Phase::kAwaitReply;
    step.results.push_back(std::move(result));
  }
  in_flight_.push_back(std::move(step));
}

void Engine::CollectOldest() {
  InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  const absl::Time start = absl::Now();
  const model::StepOutput output = executor_->Collect(step.ticket);
  totals_.step_seconds += absl::ToDoubleSeconds(absl::Now() - start);
  ++steps_.collected;
  if (!executor_->fault().ok()) return;  // RunBoundary ends the loop
  if (!output.status.ok()) {
    for (const StepResult& result : step.results) {
      result.sequence->End(
          CloseReason::kError,
          absl::InternalError(absl::StrCat("the device failed: ", output.status.message())));
    }
    return;
  }
  // The client of a closing sequence has its answer already or gave up, so the results are dropped.
  // They are dropped first, because SendDue may delete the sequence.
  for (StepResult& result : step.results) {
    if (result.sequence->state().phase() == Phase::kClosing) result.sequence = nullptr;
  }
  // A plan must be acknowledged before the manager hears of tokens written after it.
  session_.SendDue();
  TakeOutputs(output, &step.results);
  session_.Commit(&step.results);
  // Tokens whose commit could not be sent are not delivered, because the worker that continues the
  // sequence would not know them and might sample others.
  if (!link_->status().ok()) return;
  for (const StepResult& result : step.results) {
    Delivery& delivery = result.sequence->delivery();
    delivery.Send();
    if (delivery.finished()) result.sequence->End(CloseReason::kFinished, absl::OkStatus());
  }
}

void Engine::TakeOutputs(const model::StepOutput& output, std::vector<StepResult>* results) {
  auto next = output.outputs.begin();
  for (StepResult& result : *results) {
    const model::SegmentOutput* sampled = nullptr;
    if (result.output) {
      FOLIO_CHECK(next != output.outputs.end());
      sampled = &*next++;
    }
    Sequence* sequence = result.sequence;
    if (sequence == nullptr) continue;
    if (sampled != nullptr) result.sampled = sampled->token;
    sequence->state().OnCollected(result.logical_length, result.sampled);
    if (result.logical_length <= sequence->request().prompt_tokens()) {
      sequence->delivery().AddProgress(result.logical_length);
    }
    if (sampled == nullptr) continue;
    sequence->delivery().Take(*sampled, [&] {
      return sequence->CacheStatsOf(executor_->tables().at(sequence->state().held()->slot));
    });
  }
  std::erase_if(*results, [](const StepResult& result) { return result.sequence == nullptr; });
}

absl::Status Engine::Stop(absl::Status why) {
  for (; !in_flight_.empty(); in_flight_.pop_front()) {
    executor_->Collect(in_flight_.front().ticket);
  }
  const absl::Status refusal =
      why.ok() ? ShuttingDown()
               : absl::UnavailableError(
                     absl::StrCat("the worker cannot continue (", why.message(), "); try again"));
  for (auto& submission : queue_->Close(refusal)) waiting_.push_back(std::move(submission));
  for (const auto& submission : waiting_) submission->sink->OnEnd(refusal);
  waiting_.clear();
  session_.Abandon(refusal);
  PublishCounters();
  return why;
}

void Engine::Drain(absl::Time deadline) {
  {
    absl::MutexLock lock(&mutex_);
    drain_deadline_ = std::min(drain_deadline_.value_or(absl::InfiniteFuture()), deadline);
  }
  queue_->Refuse(ShuttingDown());
  queue_->Wake();
}

std::optional<absl::Time> Engine::drain_deadline() const {
  absl::MutexLock lock(&mutex_);
  return drain_deadline_;
}

void Engine::PublishCounters() {
  uint32_t held_pages = 0;
  for (const auto& sequence : session_.sequences()) {
    const std::optional<HeldSlot>& held = sequence->state().held();
    if (held) held_pages += executor_->tables().at(held->slot).total_pages();
  }
  absl::MutexLock lock(&mutex_);
  counters_ = totals_;
  counters_.held_pages = held_pages;
  counters_.pool_pages = options_.num_pages;
  counters_.running = static_cast<uint32_t>(session_.sequences().size());
  counters_.queued = static_cast<uint32_t>(waiting_.size());
}

EngineCounters Engine::counters() const {
  absl::MutexLock lock(&mutex_);
  return counters_;
}

}  // namespace folio::worker
