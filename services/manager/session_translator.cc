#include "services/manager/session_translator.h"

#include <string>
#include <utility>

#include "services/base/invalid_argument.h"
#include "services/manager/open_request.h"
#include "services/manager/worker_name.h"
#include "services/runtime/logging.h"
#include "services/wire/sequence.h"

namespace folio::manager {
namespace {

void AddOutcome(SequenceId sequence, const absl::StatusOr<cache::Outcome>& outcome,
                SessionReply& reply) {
  if (!outcome.ok()) {
    reply.failed.push_back({sequence, outcome.status()});
    return;
  }
  if (!outcome->granted.empty()) reply.granted.push_back({sequence, outcome->granted});
  if (outcome->plan.has_value()) reply.plans.push_back(*outcome->plan);
}

ResolvedCache Resolve(const policy::CacheConfig& config) {
  return wire::FromProto(CacheConfigToProto(config));
}

OpenResult ResultOf(cache::Opened opened) {
  OpenResult result;
  result.sequence = opened.sequence;
  result.lease_epoch = opened.lease_epoch;
  result.cache = Resolve(opened.cache);
  result.pages = std::move(opened.pages);
  result.scores = opened.scores;
  result.prompt_scores = opened.prompt_scores;
  return result;
}

ClaimResult ResultOf(cache::Claimed claimed) {
  ClaimResult result;
  result.sequence = claimed.sequence;
  result.lease_epoch = claimed.lease_epoch;
  result.cache = Resolve(claimed.cache);
  result.sampling = claimed.sampling;
  result.output = std::move(claimed.output);
  result.label = std::move(claimed.label);
  result.max_new_tokens = claimed.max_new_tokens;
  result.prompt_tokens = claimed.prompt_tokens;
  result.tokens = std::move(claimed.tokens);
  result.logical_length = claimed.logical_length;
  for (cache::LayerTableInfo& table : claimed.layers) {
    result.layers.push_back({std::move(table.pages), std::move(table.kept)});
  }
  result.evicted_pages = claimed.evicted_pages;
  result.scores = claimed.scores;
  result.prompt_scores = claimed.prompt_scores;
  result.plan = std::move(claimed.plan);
  return result;
}

const char* ReasonName(CloseReason reason) {
  switch (reason) {
    case CloseReason::kFinished:
      return "finished";
    case CloseReason::kCancelled:
      return "cancelled";
    case CloseReason::kDeadline:
      return "deadline";
    case CloseReason::kError:
      return "error";
    case CloseReason::kUnspecified:
      break;
  }
  return "unspecified";
}

// Only a sequence that ended by an error is worth a line: the others are as many as the requests.
void LogClosed(const CloseSequence& close, WorkerId worker) {
  const bool error = close.reason == CloseReason::kError;
  const log::Level level = error ? log::Level::kInfo : log::Level::kDebug;
  if (!log::Enabled(level)) return;
  log::Write(level, "sequence closed",
             {{"sequence", close.sequence},
              {"worker", WorkerName(worker)},
              {"reason", ReasonName(close.reason)}});
}

}  // namespace

SessionTranslator::SessionTranslator(cache::Coordinator& coordinator, WorkerId worker,
                                     const CacheRules& rules,
                                     std::function<absl::Status()> may_open)
    : coordinator_(coordinator), worker_(worker), rules_(rules), may_open_(std::move(may_open)) {}

absl::StatusOr<SessionReply> SessionTranslator::Translate(const SessionRequest& request) {
  if (last_step_.has_value() && request.step <= *last_step_) {
    return InvalidArgument("step: ", request.step, " does not follow ", *last_step_,
                           "; it must grow strictly");
  }
  if (absl::Status status = coordinator_.Renew(worker_); !status.ok()) return status;
  last_step_ = request.step;

  SessionReply reply;
  reply.step = request.step;
  for (const AckPlan& ack : request.ack) Ack(ack, reply);
  for (const CommitTokens& commit : request.commit) Commit(commit, reply);
  for (const CloseSequence& close : request.close) Close(close, reply);
  for (const ClaimSequence& claim : request.claim) reply.claimed.push_back(Claim(claim));
  for (const OpenSequence& open : request.open) reply.opened.push_back(Open(open));
  return reply;
}

void SessionTranslator::Ack(const AckPlan& ack, SessionReply& reply) {
  AddOutcome(ack.sequence, coordinator_.Ack(worker_, ack.sequence, ack.lease_epoch, ack.plan_epoch),
             reply);
}

void SessionTranslator::Commit(const CommitTokens& commit, SessionReply& reply) {
  AddOutcome(commit.sequence,
             coordinator_.Commit({.worker = worker_,
                                  .sequence = commit.sequence,
                                  .lease_epoch = commit.lease_epoch,
                                  .logical_length = commit.logical_length,
                                  .sampled = commit.sampled,
                                  .filled = commit.filled}),
             reply);
}

void SessionTranslator::Close(const CloseSequence& close, SessionReply& reply) {
  const absl::Status status = coordinator_.Close(worker_, close.sequence, close.lease_epoch);
  if (!status.ok()) {
    reply.failed.push_back({close.sequence, status});
    return;
  }
  LogClosed(close, worker_);
}

OpenResult SessionTranslator::Open(const OpenSequence& open) {
  const auto attempt = [&]() -> absl::StatusOr<cache::Opened> {
    if (absl::Status status = MayOpen(); !status.ok()) return status;
    auto request = MakeOpenRequest(open, worker_, rules_);
    if (!request.ok()) return request.status();
    return coordinator_.Open(*request);
  };
  absl::StatusOr<cache::Opened> opened = attempt();
  OpenResult result;
  if (opened.ok()) {
    for (const SequenceId id : opened->ended) {
      log::Info("orphan ended", {{"sequence", id}, {"why", "others need its pages"}});
    }
    result = ResultOf(*std::move(opened));
  } else {
    result.status = opened.status();
  }
  result.request_tag = open.request_tag;
  return result;
}

ClaimResult SessionTranslator::Claim(const ClaimSequence& claim) {
  const auto attempt = [&]() -> absl::StatusOr<cache::Claimed> {
    if (absl::Status status = MayOpen(); !status.ok()) return status;
    return coordinator_.Claim({worker_, claim.sequence, claim.resume_token});
  };
  absl::StatusOr<cache::Claimed> claimed = attempt();
  ClaimResult result;
  if (claimed.ok()) {
    log::Info("orphan claimed", {{"sequence", claimed->sequence},
                                 {"worker", WorkerName(worker_)},
                                 {"lease_epoch", claimed->lease_epoch},
                                 {"length", claimed->logical_length}});
    result = ResultOf(*std::move(claimed));
  } else {
    result.status = claimed.status();
  }
  result.request_tag = claim.request_tag;
  return result;
}

}  // namespace folio::manager
