#include "services/worker/engine/manager_session.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "services/wire/session_limits.h"
#include "services/worker/engine/claim_record.h"
#include "services/worker/engine/plan_check.h"
#include "services/worker/engine/refusal.h"
#include "services/worker/engine/score_plan.h"

namespace folio::worker {
ManagerSession::ManagerSession(const EngineOptions& options, model::Executor* executor,
                               ManagerLink* link, const model::Tokenizer* tokenizer,
                               const StepCounts* steps)
    : options_(options),
      executor_(executor),
      link_(link),
      tokenizer_(tokenizer),
      steps_(steps),
      parking_(sequences_, executor->tables(), link),
      swap_(executor, options.swap_slots) {}

TokenCount ManagerSession::prefill_ahead() const {
  return TokenCount(options_.token_budget.alone *
                    static_cast<uint32_t>(executor_->pipeline_depth() + 2));
}

void ManagerSession::Open(std::vector<std::shared_ptr<Submission>> submissions) {
  SessionRequest request;
  size_t bytes = 0;
  for (std::shared_ptr<Submission>& submission : submissions) {
    const uint64_t tag = next_tag_++;
    if (submission->request.resume.has_value()) {
      request.claim.push_back(ClaimOf(tag, submission->request, prefill_ahead()));
      request.claim.back().may_be_swapped = swap_.enabled();
    } else {
      OpenSequence open = OpenOf(tag, submission->request, prefill_ahead());
      open.may_be_swapped = swap_.enabled();
      const size_t more = MostBytes(open);
      // The manager answers requests in their order, so the sequences keep theirs.
      if (bytes > 0 && bytes + more > wire::kOpenBatchBytes) {
        link_->Send(std::exchange(request, {}));
        bytes = 0;
      }
      bytes += more;
      request.open.push_back(std::move(open));
    }
    sequences_.push_back(std::make_unique<Sequence>(tag, std::move(submission), tokenizer_));
  }
  link_->Send(std::move(request));
}

void ManagerSession::ApplyReplies() {
  while (std::optional<SessionReply> reply = link_->TryReceive()) Apply(*std::move(reply));
}

void ManagerSession::AwaitReply(SteadyTime deadline) {
  if (std::optional<SessionReply> reply = link_->Receive(deadline)) Apply(*std::move(reply));
}

bool ManagerSession::SendDue(bool all_committed) {
  SessionRequest request;
  std::erase_if(due_acks_, [&](const DueAck& due) {
    if (due.busy_until > steps_->collected) return false;
    if (due.trace != nullptr) due.trace->OnAcknowledged(due.ack.plan_epoch, SteadyNow());
    request.ack.push_back(due.ack);
    return true;
  });
  if (all_committed) AddParks(&request);
  std::erase_if(sequences_, [&](const std::unique_ptr<Sequence>& sequence) {
    const SequenceState& state = sequence->state();
    if (state.phase() != Phase::kClosing || !state.grant().has_value()) return false;
    if (state.progress().busy_until > steps_->collected) return false;
    request.close.push_back(
        {state.grant()->id, state.grant()->lease_epoch, sequence->close_reason()});
    swap_.Take(state.grant()->id);
    if (state.held().has_value()) tables().Release(state.held()->slot);
    return true;
  });
  if (request.ack.empty() && request.park.empty() && request.close.empty()) return false;
  parking_.OnRoom();
  link_->Send(std::move(request));
  return true;
}

void ManagerSession::Commit(std::vector<StepResult>* results) {
  if (results->empty()) return;
  SessionRequest request;
  request.commit.reserve(results->size());
  for (StepResult& result : *results) {
    const SequenceGrant& grant = *result.sequence->state().grant();
    CommitTokens& commit = request.commit.emplace_back();
    commit.sequence = grant.id;
    commit.lease_epoch = grant.lease_epoch;
    commit.logical_length = TokenCount(result.logical_length);
    if (result.sampled.has_value()) commit.sampled = {*result.sampled};
    commit.filled = std::move(result.filled);
    if (result.sequence->request().trace != nullptr) NoteCommit(*result.sequence, commit);
  }
  const uint64_t step = link_->Send(std::move(request));
  for (const StepResult& result : *results) {
    if (result.awaits_reply) result.sequence->state().OnReported(step);
  }
}

void ManagerSession::Apply(SessionReply reply) {
  clears_pages_ = reply.clear_pages;
  for (OpenResult& result : reply.opened) OnOpenResult(std::move(result));
  for (ClaimResult& result : reply.claimed) OnClaimResult(std::move(result));
  for (UnparkResult& result : reply.unparked) OnUnparked(std::move(result));
  for (const PageGrant& grant : reply.granted) OnGrant(grant);
  for (const Plan& plan : reply.plans) ApplyPlan(plan);
  for (const SequenceError& error : reply.failed) {
    if (Sequence* sequence = Find(error.sequence)) sequence->End(CloseReason::kError, error.status);
  }
  for (const SequenceId id : reply.park) {
    if (Sequence* sequence = Find(id)) parking_.OnAskedBack(sequence);
  }
  for (const SwapOffer& offer : reply.swap) {
    const Sequence* sequence = Find(offer.sequence);
    // One that was parked before it heard of this has given the slots back.
    if (sequence != nullptr && sequence->state().phase() == Phase::kParking) swap_.OnOffer(offer);
  }
  for (const auto& sequence : sequences_) sequence->state().OnReply(reply.step);
}

SequenceList::iterator ManagerSession::FindTag(uint64_t tag) {
  return std::find_if(sequences_.begin(), sequences_.end(),
                      [&](const auto& sequence) { return sequence->tag() == tag; });
}

template <typename Result>
void ManagerSession::OnFull(const Result& result) {
  const auto it = FindTag(result.request_tag);
  if (it == sequences_.end()) return;
  // A request that was cancelled meanwhile has its answer.
  if ((*it)->state().phase() == Phase::kOpening) {
    refused_.push_back({(*it)->submission(), result.status});
  }
  sequences_.erase(it);
}

template <typename Result>
Sequence* ManagerSession::TakeGrant(Result* result) {
  const auto it = FindTag(result->request_tag);
  if (it == sequences_.end()) return nullptr;
  Sequence* sequence = it->get();
  if (!result->status.ok()) {
    sequence->End(CloseReason::kError, RefusedForGood(result->status));
    sequences_.erase(it);  // the manager holds nothing for it
    return nullptr;
  }
  sequence->state().OnGranted({result->sequence, result->lease_epoch, std::move(result->cache)});
  // If it was cancelled meanwhile, SendDue closes it.
  return sequence->state().phase() == Phase::kClosing ? nullptr : sequence;
}

template <typename Result>
absl::StatusOr<ScorePlan> ManagerSession::ScoresFor(const Sequence& sequence,
                                                    const Result& result) const {
  absl::StatusOr<ScorePlan> scores =
      PlanScores(result.scores, result.prompt_scores, result.scored_layers);
  if (!scores.ok()) return scores;
  const uint32_t prompt = sequence.request().prompt_tokens();
  const uint32_t queries = scores->window.queries;
  // The second channel serves the decision at the prompt's end alone.
  if (scores->window.channel != 0 && !NeedsCompaction(sequence.state().grant()->cache, prompt)) {
    scores->window = {};
  }
  scores->window.queries = std::min(scores->window.queries, prompt);
  if (scores->window.queries > options_.token_budget.alone) {
    return absl::InvalidArgumentError(
        absl::StrCat("the policy's window ", queries, " is above this worker's --prefill_chunk ",
                     options_.token_budget.alone, ": lower the window"));
  }
  return scores;
}

absl::Status ManagerSession::Begin(Sequence* sequence, const OpenResult& result) {
  const auto scores = ScoresFor(*sequence, result);
  if (!scores.ok()) return scores.status();
  return Place(sequence, *scores, result.pages);
}

absl::Status ManagerSession::Place(Sequence* sequence, const ScorePlan& scores,
                                   const LayerPageLists& pages) {
  const uint32_t prompt = sequence->request().prompt_tokens();
  const CacheGeometry& geometry = options_.geometry;
  const PromptStops stops = StopsOf(sequence->state().grant()->cache, scores, prompt);
  const uint32_t at_first = std::min(stops.Next(0), prefill_ahead().value());
  const bool fit = PagesFit(pages, geometry.num_layers, options_.num_pages) &&
                   std::all_of(pages.begin(), pages.end(), [&](const PageList& layer) {
                     return layer.size() * geometry.page_tokens >= at_first;
                   });
  if (!fit) return absl::InternalError("the manager opened the sequence with too few pages");
  const model::SequenceSlot slot = tables().Acquire(scores.kind);
  tables().Extend(slot, pages, clears_pages_);
  sequence->state().Begin({slot, scores}, prompt);
  CacheCounters& counters = sequence->counters();
  counters.plans = counters.evicted_pages = 0;  // all of it is computed again
  counters.survivors = Survivors(geometry.num_layers);
  counters.peak_pages = std::max(counters.peak_pages, TableOf(*sequence).total_pages());
  return absl::OkStatus();
}

absl::Status ManagerSession::Resume(Sequence* sequence, const ClaimResult& record,
                                    const std::vector<TokenId>& sampled) {
  const auto scores = ScoresFor(*sequence, record);
  if (!scores.ok()) return scores.status();
  const uint32_t prompt = sequence->request().prompt_tokens();
  const PromptStops stops = StopsOf(sequence->state().grant()->cache, *scores, prompt);
  if (absl::Status valid = ValidateTables(record, options_.geometry, options_.num_pages, stops,
                                          prefill_ahead().value());
      !valid.ok()) {
    return valid;
  }
  if (absl::Status valid = ValidateWindow(record, scores->window.queries); !valid.ok()) {
    return valid;
  }
  sequence->state().SetSampled(sampled);
  if (absl::Status restored = Restore(sequence, *scores, record); !restored.ok()) return restored;
  const model::BlockTables& table = TableOf(*sequence);
  sequence->counters() = {.peak_tokens = table.most_resident(),
                          .peak_pages = table.total_pages(),
                          .evicted_pages = record.evicted_pages.value(),
                          .survivors = {}};
  return absl::OkStatus();
}

absl::Status ManagerSession::Start(Sequence* sequence) {
  const SequenceRequest& request = sequence->request();
  const SequenceGrant& grant = *sequence->state().grant();
  return sequence->answer().Start(
      {.sequence = grant.id,
       .prompt_tokens = request.prompt_tokens(),
       .cache = grant.cache.options,
       .seed = request.sampling.seed.value_or(0),
       .resume_token = request.resume_token,
       .replayed_tokens = static_cast<uint32_t>(request.replayed.size())});
}

void ManagerSession::OnOpenResult(OpenResult result) {
  if (!result.status.ok() && result.may_fit_later) return OnFull(result);
  Sequence* sequence = TakeGrant(&result);
  if (sequence == nullptr) return;
  absl::Status begun = Begin(sequence, result);
  if (begun.ok()) begun = Start(sequence);
  if (!begun.ok()) sequence->End(CloseReason::kError, begun);
}

void ManagerSession::OnClaimResult(ClaimResult result) {
  if (!result.status.ok() && result.may_fit_later) return OnFull(result);
  Sequence* sequence = TakeGrant(&result);
  if (sequence == nullptr) return;
  // A record that fails a check ends here, and SendDue closes the sequence at the manager.
  const auto sampled =
      TakeRequest(result, {options_.vocab, options_.context}, &sequence->submission()->request);
  if (!sampled.ok()) return sequence->End(CloseReason::kError, sampled.status());
  absl::Status resumed = Resume(sequence, result, *sampled);
  if (resumed.ok()) resumed = Start(sequence);
  if (resumed.ok()) {
    resumed = sequence->answer().Replay(*sampled,
                                        [&] { return sequence->CacheStatsOf(TableOf(*sequence)); });
  }
  if (!resumed.ok()) return sequence->End(CloseReason::kError, resumed);
  if (sequence->answer().delivery().finished()) {
    sequence->End(CloseReason::kFinished, absl::OkStatus());
  }
  if (result.plan.has_value()) ApplyPlan(*result.plan);
}

void ManagerSession::OnGrant(const PageGrant& grant) {
  Sequence* sequence = Find(grant.sequence);
  if (sequence == nullptr || sequence->state().gives_pages_back()) return;
  if (!PagesFit(grant.pages, options_.geometry.num_layers, options_.num_pages)) {
    return sequence->End(CloseReason::kError,
                         absl::InternalError("the manager granted pages of a malformed shape"));
  }
  tables().Extend(sequence->state().held()->slot, grant.pages, clears_pages_);
  CacheCounters& counters = sequence->counters();
  counters.peak_pages = std::max(counters.peak_pages, TableOf(*sequence).total_pages());
}

Sequence* ManagerSession::Find(SequenceId id) const {
  const auto it = std::find_if(sequences_.begin(), sequences_.end(), [&](const auto& sequence) {
    const std::optional<SequenceGrant>& grant = sequence->state().grant();
    return grant.has_value() && grant->id == id;
  });
  return it == sequences_.end() ? nullptr : it->get();
}

}  // namespace folio::worker
