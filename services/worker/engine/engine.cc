#include "services/worker/engine/engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"

namespace folio::worker {
namespace {

// While nothing runs, the loop makes a turn this often. So other threads can tell a loop that waits
// from one that hangs, and an executor that depends on other processes is asked if they live.
constexpr absl::Duration kLongestWait = absl::Milliseconds(250);

// Why a request must end before its time; OK if it need not.
absl::Status WhyEnded(const Submission& submission, bool drain_expired) {
  switch (submission.cancelled.load()) {
    case CloseReason::kUnspecified:
      return drain_expired ? EngineShutdown() : absl::OkStatus();
    case CloseReason::kDeadline:
      return absl::DeadlineExceededError("the request's deadline has passed");
    default:
      return absl::CancelledError("the client ended the call");
  }
}

// Nothing if the step computes nothing.
std::optional<StepPhase> PhaseOf(const StepSize& size) {
  if (size.prompt_tokens == 0) {
    return size.decodes == 0 ? std::nullopt : std::optional(StepPhase::kDecode);
  }
  return size.decodes == 0 ? StepPhase::kPrefill : StepPhase::kMixed;
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
               RequestQueue* queue, const model::Tokenizer* tokenizer, StepGauge* gauge)
    : options_(options),
      executor_(executor),
      link_(link),
      queue_(queue),
      gauge_(gauge),
      scheduler_(options.token_budget, executor->max_rows(), &executor->tables()),
      session_(options, executor, link, tokenizer, &steps_),
      waiting_(options.queue_timeout, queue) {}

absl::Status Engine::Run() {
  queue_->Open([link = link_] { link->Wake(); });
  if (drain_deadline().has_value()) queue_->Refuse(EngineShutdown());
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
  gauge_->OnTurn();
  waiting_.Add(queue_->Take(), SteadyNow());
  EndCancelled();
  session_.ApplyReplies();
  // A device that failed may not have done what it was told. So nothing is acknowledged any more,
  // and the manager keeps the sequences as it knows them.
  if (!link_->status().ok() || !executor_->fault().ok()) return false;
  ParkPaused();
  OpenWaiting();
  if (session_.SendDue(/*all_committed=*/true)) waiting_.OnRoom();
  return !drain_deadline().has_value() || !session_.sequences().empty() || !waiting_.empty();
}

void Engine::EndCancelled() {
  const SteadyTime now = SteadyNow();
  const bool expired = now >= drain_deadline().value_or(SteadyTime::InfiniteFuture());
  waiting_.End([&](const Submission& submission) { return WhyEnded(submission, expired); }, now);
  for (const auto& sequence : session_.sequences()) {
    const CloseReason cancelled = sequence->submission()->cancelled.load();
    const absl::Status why = WhyEnded(*sequence->submission(), expired);
    if (why.ok()) continue;
    sequence->End(cancelled == CloseReason::kUnspecified ? CloseReason::kError : cancelled, why);
  }
}

void Engine::ParkPaused() {
  const SteadyTime now = SteadyNow();
  const bool others_wait = !waiting_.empty() || !session_.parking().empty();
  for (const auto& sequence : session_.sequences()) {
    const bool stands = sequence->NotePause(now) >= options_.park_paused_after;
    if (stands && others_wait) sequence->state().Park();
  }
}

Places Engine::FreePlaces() const {
  Places places(std::min<size_t>(options_.max_batch, executor_->max_rows() - 1),
                options_.token_budget.short_prompt);
  for (const auto& sequence : session_.sequences()) {
    if (sequence->state().phase() == Phase::kParked) continue;
    places.Use(sequence->request().prompt.size());
  }
  return places;
}

void Engine::OpenWaiting() {
  const SteadyTime now = SteadyNow();
  waiting_.PutBack(session_.TakeRefused(), now);
  // Parked sequences come before new requests.
  session_.parking().Ask(FreePlaces().free(), now);
  const bool asking = session_.opening() || !session_.parking().empty();
  auto taken = waiting_.Take(FreePlaces(), asking, now);
  if (!taken.empty()) session_.Open(std::move(taken));
  waiting_.Report(now);
}

void Engine::WaitForManager() {
  const SteadyTime start = SteadyNow();
  SteadyTime deadline =
      std::min(drain_deadline().value_or(SteadyTime::InfiniteFuture()), start + kLongestWait);
  if (!waiting_.empty()) {
    const bool asking = session_.opening() || !session_.parking().empty();
    deadline = std::min(deadline, waiting_.NextTurn(asking ? Places() : FreePlaces()));
  }
  deadline = std::min(deadline, session_.parking().NextAsk());
  const SequenceList& sequences = session_.sequences();
  const bool running = std::any_of(sequences.begin(), sequences.end(), [](const auto& sequence) {
    const Phase phase = sequence->state().phase();
    if (sequence->submission()->paused.load()) return false;
    return phase == Phase::kAwaitPlan || phase == Phase::kDecode || phase == Phase::kAwaitReply;
  });
  session_.AwaitReply(deadline);
  if (running) totals_.manager_wait_seconds += absl::ToDoubleSeconds(SteadyNow() - start);
}

void Engine::Enqueue(const Batch& batch) {
  const SteadyTime start = SteadyNow();
  InFlight step;
  step.enqueued = start;
  step.size = batch.size();
  gauge_->OnEnqueue(batch.rows());
  step.ticket = executor_->Enqueue(batch.step);
  totals_.step_seconds += absl::ToDoubleSeconds(SteadyNow() - start);
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
    waiting_.OnComputed(sequence->request().tenant, std::max<size_t>(segment.tokens.size(), 1));
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
  const SteadyTime start = SteadyNow();
  const model::StepOutput output = executor_->Collect(step.ticket);
  gauge_->OnCollected();
  const SteadyTime now = SteadyNow();
  totals_.step_seconds += absl::ToDoubleSeconds(now - start);
  if (const auto phase = PhaseOf(step.size)) {
    const absl::Duration took = now - std::max(step.enqueued, last_collected_);
    totals_.step_times.Add(*phase, took);
    scheduler_.OnStep(step.size, took);
  }
  last_collected_ = now;
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
  if (session_.SendDue(/*all_committed=*/false)) waiting_.OnRoom();
  TakeOutputs(output, &step.results);
  session_.Commit(&step.results);
  // Tokens whose commit could not be sent are not delivered, because the worker that continues the
  // sequence would not know them and might sample others.
  if (!link_->status().ok()) return;
  for (const StepResult& result : step.results) {
    Delivery& delivery = result.sequence->answer().delivery();
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
    if (sampled != nullptr && !sampled->status.ok()) {
      // This sequence ends alone. The step is not committed for it, and the manager closes it.
      sequence->End(CloseReason::kError, sampled->status);
      result.sequence = nullptr;
      continue;
    }
    if (sampled != nullptr) result.sampled = sampled->token;
    const bool is_new = sequence->state().OnCollected(result.logical_length, result.sampled);
    if (result.logical_length <= sequence->request().prompt_tokens()) {
      sequence->answer().delivery().AddProgress(result.logical_length);
    }
    if (!is_new) result.sampled.reset();  // the manager and the client have it
    if (!is_new) continue;
    const absl::Status taken = sequence->answer().Take(*sampled, [&] {
      return sequence->CacheStatsOf(executor_->tables().at(sequence->state().held()->slot));
    });
    if (!taken.ok()) {
      sequence->End(CloseReason::kError, taken);
      result.sequence = nullptr;
    }
  }
  std::erase_if(*results, [](const StepResult& result) { return result.sequence == nullptr; });
}

}  // namespace folio::worker
