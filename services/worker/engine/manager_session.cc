#include "services/worker/engine/manager_session.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "services/worker/engine/claim_record.h"
#include "services/worker/engine/plan_check.h"
#include "services/worker/engine/score_plan.h"

namespace folio::worker {

ManagerSession::ManagerSession(const EngineOptions& options, model::Executor* executor,
                               ManagerLink* link, const model::Tokenizer* tokenizer,
                               const StepCounts* steps)
    : options_(options), executor_(executor), link_(link), tokenizer_(tokenizer), steps_(steps) {}

void ManagerSession::Open(std::vector<std::shared_ptr<Submission>> submissions) {
  SessionRequest request;
  for (std::shared_ptr<Submission>& submission : submissions) {
    const uint64_t tag = next_tag_++;
    if (submission->request.resume.has_value()) {
      request.claim.push_back(ClaimOf(tag, submission->request));
    } else {
      request.open.push_back(OpenOf(tag, submission->request));
    }
    sequences_.push_back(std::make_unique<Sequence>(tag, std::move(submission), tokenizer_));
  }
  link_->Send(std::move(request));
}

void ManagerSession::ApplyReplies() {
  while (std::optional<SessionReply> reply = link_->TryReceive()) Apply(*std::move(reply));
}

void ManagerSession::AwaitReply(absl::Time deadline) {
  if (std::optional<SessionReply> reply = link_->Receive(deadline)) Apply(*std::move(reply));
}

void ManagerSession::SendDue() {
  SessionRequest request;
  std::erase_if(due_acks_, [&](const DueAck& due) {
    if (due.busy_until > steps_->collected) return false;
    request.ack.push_back(due.ack);
    return true;
  });
  std::erase_if(sequences_, [&](const std::unique_ptr<Sequence>& sequence) {
    const SequenceState& state = sequence->state();
    if (state.phase() != Phase::kClosing || !state.grant().has_value()) return false;
    if (state.progress().busy_until > steps_->collected) return false;
    request.close.push_back(
        {state.grant()->id, state.grant()->lease_epoch, sequence->close_reason()});
    if (state.held().has_value()) tables().Release(state.held()->slot);
    return true;
  });
  if (!request.ack.empty() || !request.close.empty()) link_->Send(std::move(request));
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
  }
  const uint64_t step = link_->Send(std::move(request));
  for (const StepResult& result : *results) {
    if (result.awaits_reply) result.sequence->state().OnReported(step);
  }
}

void ManagerSession::Abandon(const absl::Status& why) {
  for (const auto& sequence : sequences_) {
    sequence->End(CloseReason::kError, why);
    const std::optional<HeldSlot>& held = sequence->state().held();
    if (held.has_value()) tables().Release(held->slot);
  }
  sequences_.clear();
}

void ManagerSession::Apply(SessionReply reply) {
  for (OpenResult& result : reply.opened) OnOpenResult(std::move(result));
  for (ClaimResult& result : reply.claimed) OnClaimResult(std::move(result));
  for (const PageGrant& grant : reply.granted) OnGrant(grant);
  for (Plan& plan : reply.plans) ApplyPlan(std::move(plan));
  for (const SequenceError& error : reply.failed) {
    if (Sequence* sequence = Find(error.sequence)) sequence->End(CloseReason::kError, error.status);
  }
  for (const auto& sequence : sequences_) sequence->state().OnReply(reply.step);
}

template <typename Result>
Sequence* ManagerSession::TakeGrant(Result* result) {
  const auto it = std::find_if(sequences_.begin(), sequences_.end(), [&](const auto& sequence) {
    return sequence->tag() == result->request_tag;
  });
  if (it == sequences_.end()) return nullptr;
  Sequence* sequence = it->get();
  if (!result->status.ok()) {
    sequence->End(CloseReason::kError, result->status);
    sequences_.erase(it);  // the manager holds nothing for it
    return nullptr;
  }
  sequence->state().OnGranted({result->sequence, result->lease_epoch, std::move(result->cache)});
  // If it was cancelled meanwhile, SendDue closes it.
  return sequence->state().phase() == Phase::kClosing ? nullptr : sequence;
}

absl::StatusOr<ScorePlan> ManagerSession::ScoresFor(const Sequence& sequence,
                                                    const ScoreNeed& first,
                                                    const ScoreNeed& second) const {
  absl::StatusOr<ScorePlan> scores = PlanScores(first, second);
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
  const auto scores = ScoresFor(*sequence, result.scores, result.prompt_scores);
  if (!scores.ok()) return scores.status();
  const uint32_t prompt = sequence->request().prompt_tokens();
  const CacheGeometry& geometry = options_.geometry;
  const bool fit =
      PagesFit(result.pages, geometry.num_layers, options_.num_pages) &&
      std::all_of(result.pages.begin(), result.pages.end(), [&](const PageList& pages) {
        return pages.size() * geometry.page_tokens >= prompt;
      });
  if (!fit) return absl::InternalError("the manager opened the sequence with too few pages");
  const model::SequenceSlot slot = tables().Acquire(scores->kind);
  tables().Extend(slot, result.pages);
  sequence->state().Begin({slot, *scores}, prompt);
  sequence->counters().peak_pages = TableOf(*sequence).total_pages();
  return absl::OkStatus();
}

absl::Status ManagerSession::Resume(Sequence* sequence, const ClaimResult& record,
                                    const std::vector<TokenId>& sampled) {
  const auto scores = ScoresFor(*sequence, record.scores, record.prompt_scores);
  if (!scores.ok()) return scores.status();
  if (absl::Status valid = ValidateTables(record, options_.geometry, options_.num_pages);
      !valid.ok()) {
    return valid;
  }
  const model::SequenceSlot slot = tables().Acquire(scores->kind);
  tables().Restore(slot, record.layers);
  const model::BlockTables& table = tables().at(slot);
  const uint32_t prompt = sequence->request().prompt_tokens();
  const uint32_t length = record.logical_length.value();
  sequence->state().Begin({slot, *scores}, prompt, length, sampled);
  sequence->counters() = {.peak_tokens = table.most_resident(),
                          .peak_pages = table.total_pages(),
                          .evicted_pages = record.evicted_pages.value()};
  return absl::OkStatus();
}

void ManagerSession::Start(Sequence* sequence) const {
  const SequenceRequest& request = sequence->request();
  const SequenceGrant& grant = *sequence->state().grant();
  sequence->delivery().Start({.sequence = grant.id,
                              .prompt_tokens = request.prompt_tokens(),
                              .cache = grant.cache.options,
                              .seed = request.sampling.seed.value_or(0),
                              .resume_token = request.resume_token});
}

void ManagerSession::OnOpenResult(OpenResult result) {
  Sequence* sequence = TakeGrant(&result);
  if (sequence == nullptr) return;
  if (absl::Status begun = Begin(sequence, result); !begun.ok()) {
    return sequence->End(CloseReason::kError, begun);
  }
  Start(sequence);
}

void ManagerSession::OnClaimResult(ClaimResult result) {
  Sequence* sequence = TakeGrant(&result);
  if (sequence == nullptr) return;
  const auto sampled = TakeRequest(result, &sequence->submission().request);
  if (!sampled.ok()) return sequence->End(CloseReason::kError, sampled.status());
  if (absl::Status resumed = Resume(sequence, result, *sampled); !resumed.ok()) {
    return sequence->End(CloseReason::kError, resumed);
  }
  Start(sequence);
  const bool finished = sequence->delivery().Replay(
      *sampled, [&] { return sequence->CacheStatsOf(TableOf(*sequence)); });
  if (finished) sequence->End(CloseReason::kFinished, absl::OkStatus());
  if (result.plan.has_value()) ApplyPlan(*std::move(result.plan));
}

void ManagerSession::OnGrant(const PageGrant& grant) {
  Sequence* sequence = Find(grant.sequence);
  if (sequence == nullptr || sequence->state().phase() == Phase::kClosing) return;
  if (!PagesFit(grant.pages, options_.geometry.num_layers, options_.num_pages)) {
    return sequence->End(CloseReason::kError,
                         absl::InternalError("the manager granted pages of a malformed shape"));
  }
  tables().Extend(sequence->state().held()->slot, grant.pages);
  CacheCounters& counters = sequence->counters();
  counters.peak_pages = std::max(counters.peak_pages, TableOf(*sequence).total_pages());
}

void ManagerSession::ApplyPlan(Plan plan) {
  Sequence* sequence = Find(plan.sequence);
  if (sequence == nullptr || sequence->state().phase() == Phase::kClosing) return;
  const model::BlockTables& table = TableOf(*sequence);
  if (absl::Status valid = ValidatePlan(plan, sequence->state().phase(), table); !valid.ok()) {
    return sequence->End(CloseReason::kError, valid);
  }
  CacheCounters& counters = sequence->counters();
  const uint32_t held = table.total_pages();
  // A page that leaves the table is out of use when the steps in flight are collected. Moved tokens
  // are in place when the step after the move is, because a device that runs behind moves them
  // just before that step.
  uint64_t busy_until = steps_->enqueued;
  if (auto* compaction = std::get_if<CompactAction>(&plan.action)) {
    if (executor_->pipeline_depth() > 0) ++busy_until;
    ApplyCompaction(sequence, std::move(*compaction));
    sequence->state().OnCompacted(busy_until);
  } else {
    ApplyDrop(sequence, std::get<DropAction>(plan.action));
  }
  counters.evicted_pages += held - table.total_pages();
  ++counters.plans;
  due_acks_.push_back(
      {busy_until, {plan.sequence, sequence->state().grant()->lease_epoch, plan.epoch}});
}

void ManagerSession::ApplyCompaction(Sequence* sequence, CompactAction action) {
  executor_->Compact(sequence->state().held()->slot, action);
  if (!sequence->request().report_evictions) return;
  Eviction eviction;
  for (std::vector<TokenSlot>& kept : action.keep) {
    eviction.layers.push_back({std::move(kept), std::nullopt});
  }
  sequence->delivery().Report(std::move(eviction));
}

void ManagerSession::ApplyDrop(Sequence* sequence, const DropAction& action) {
  tables().DropBlocks(sequence->state().held()->slot, action);
  if (!sequence->request().report_evictions) return;
  const uint32_t fed_back = sequence->state().progress().fed - sequence->request().prompt_tokens();
  Eviction eviction = {.step = static_cast<int32_t>(fed_back) - 1, .layers = {}};
  for (const std::optional<BlockIndex>& block : action.block) {
    eviction.layers.push_back({{}, block});
  }
  sequence->delivery().Report(std::move(eviction));
}

Sequence* ManagerSession::Find(SequenceId id) const {
  const auto it = std::find_if(sequences_.begin(), sequences_.end(), [&](const auto& sequence) {
    const std::optional<SequenceGrant>& grant = sequence->state().grant();
    return grant.has_value() && grant->id == id;
  });
  return it == sequences_.end() ? nullptr : it->get();
}

}  // namespace folio::worker
