#include "services/manager/session_translator.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/base/invalid_argument.h"
#include "services/manager/open_request.h"
#include "services/manager/worker_name.h"
#include "services/runtime/logging.h"
#include "services/wire/sequence.h"

namespace folio::manager {
namespace {

void AddOutcome(SequenceId sequence, absl::StatusOr<cache::Outcome> outcome, SessionReply& reply) {
  if (!outcome.ok()) {
    reply.failed.push_back({sequence, outcome.status()});
    return;
  }
  if (!outcome->granted.empty()) reply.granted.push_back({sequence, std::move(outcome->granted)});
  if (outcome->plan.has_value()) reply.plans.push_back(*std::move(outcome->plan));
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
  result.scored_layers = opened.scored_layers;
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
  result.tenant = std::move(claimed.tenant);
  result.priority = claimed.priority;
  result.max_new_tokens = claimed.max_new_tokens;
  result.prompt_tokens = claimed.prompt_tokens;
  result.tokens = std::move(claimed.tokens);
  result.logical_length = claimed.logical_length;
  for (cache::LayerTableInfo& table : claimed.layers) {
    result.layers.push_back(
        {std::move(table.pages), std::move(table.kept), std::move(table.slots)});
  }
  result.evicted_pages = claimed.evicted_pages;
  result.scores = claimed.scores;
  result.prompt_scores = claimed.prompt_scores;
  result.scored_layers = claimed.scored_layers;
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
                                     std::function<absl::Status()> may_open, PoolEvents event_log)
    : coordinator_(coordinator),
      worker_(worker),
      rules_(rules),
      may_open_(std::move(may_open)),
      event_log_(std::move(event_log)) {}

absl::StatusOr<SessionReply> SessionTranslator::Translate(const SessionRequest& request) {
  if (last_step_.has_value() && request.step <= *last_step_) {
    return InvalidArgument("step: ", request.step, " does not follow ", *last_step_,
                           "; it must grow strictly");
  }
  absl::Status renewed = coordinator_.Renew(worker_, request.progress);
  if (!renewed.ok()) return renewed;
  last_step_ = request.step;

  SessionReply reply;
  reply.step = request.step;
  Step(request, reply);
  for (const ParkSequence& park : request.park) Park(park, reply);
  for (const CloseSequence& close : request.close) Close(close, reply);
  for (const ClaimSequence& claim : request.claim) reply.claimed.push_back(Claim(claim));
  for (const UnparkSequence& unpark : request.unpark) Unpark(unpark, reply);
  // Once there is no room for one request of the worker's line, the later ones must not pass it.
  const OpenResult* full = nullptr;
  reply.opened.reserve(request.open.size());
  for (const OpenSequence& open : request.open) {
    reply.opened.push_back(full != nullptr && open.waits_for_room ? *full : Open(open));
    OpenResult& result = reply.opened.back();
    result.request_tag = open.request_tag;
    if (open.waits_for_room && result.may_fit_later) full = &result;
  }
  Attend(reply);
  return reply;
}

void SessionTranslator::Step(const SessionRequest& request, SessionReply& reply) {
  if (request.ack.empty() && request.commit.empty()) return;
  std::vector<absl::StatusOr<cache::Outcome>> outcomes =
      coordinator_.Step(worker_, request.ack, request.commit);
  auto outcome = outcomes.begin();
  for (const AckPlan& ack : request.ack) {
    if (outcome->ok() && (*outcome)->evicted.has_value()) {
      Record({.kind = EventKind::kPagesEvicted,
              .sequence = ack.sequence,
              .pages = (*outcome)->evicted->pages,
              .policy = (*outcome)->evicted->policy});
    }
    AddOutcome(ack.sequence, std::move(*outcome++), reply);
  }
  for (const CommitTokens& commit : request.commit) {
    AddOutcome(commit.sequence, std::move(*outcome++), reply);
  }
}

void SessionTranslator::Close(const CloseSequence& close, SessionReply& reply) {
  const absl::Status status = coordinator_.Close(worker_, close.sequence, close.lease_epoch);
  if (!status.ok()) {
    reply.failed.push_back({close.sequence, status});
    return;
  }
  LogClosed(close, worker_);
  Record({.kind = EventKind::kSequenceClosed,
          .sequence = close.sequence,
          .text = ReasonName(close.reason)});
}

OpenResult SessionTranslator::Open(const OpenSequence& open) {
  const auto attempt = [&]() -> absl::StatusOr<cache::Opened> {
    if (absl::Status status = MayOpen(); !status.ok()) return status;
    auto request = MakeOpenRequest(open, worker_, rules_);
    if (!request.ok()) return request.status();
    return coordinator_.Open(*std::move(request));
  };
  absl::StatusOr<cache::Opened> opened = attempt();
  OpenResult result;
  if (opened.ok()) {
    NoteEnded(opened->ended);
    RecordOpened(open, *opened);
    result = ResultOf(*std::move(opened));
  } else {
    result.may_fit_later = cache::MayFitLater(opened.status());
    result.status = opened.status();
    RecordNotOpened(open, result);
  }
  result.request_tag = open.request_tag;
  return result;
}

ClaimResult SessionTranslator::Claim(const ClaimSequence& claim) {
  const auto attempt = [&]() -> absl::StatusOr<cache::Claimed> {
    if (absl::Status status = MayOpen(); !status.ok()) return status;
    return coordinator_.Claim({.worker = worker_,
                               .sequence = claim.sequence,
                               .resume_token = claim.resume_token,
                               .abilities = {.prefill_ahead = claim.prefill_ahead,
                                             .parks = claim.may_be_parked,
                                             .streams = claim.compacts_in_prefill,
                                             .swaps = claim.may_be_swapped},
                               .tenant = claim.tenant});
  };
  absl::StatusOr<cache::Claimed> claimed = attempt();
  RecordClaim(claim, claimed);
  ClaimResult result;
  if (claimed.ok()) {
    log::Info("orphan claimed", {{"sequence", claimed->sequence},
                                 {"worker", WorkerName(worker_)},
                                 {"lease_epoch", claimed->lease_epoch},
                                 {"length", claimed->logical_length}});
    NoteEnded(claimed->ended);
    result = ResultOf(*std::move(claimed));
  } else {
    result.may_fit_later = cache::MayFitLater(claimed.status());
    result.status = claimed.status();
  }
  result.request_tag = claim.request_tag;
  return result;
}

void SessionTranslator::RecordOpened(const OpenSequence& open, const cache::Opened& opened) {
  if (!event_log_.kept()) return;
  Record({.kind = EventKind::kSequenceOpened,
          .sequence = opened.sequence,
          .label = open.label,
          .tokens = TokenCount(static_cast<uint32_t>(open.prompt.size())),
          .policy = opened.cache.policy->traits().name});
}

void SessionTranslator::RecordNotOpened(const OpenSequence& open, const OpenResult& result) {
  Event event = {.kind = EventKind::kSequenceRefused,
                 .label = open.label,
                 .code = result.status.code(),
                 .text = std::string(result.status.message())};
  if (open.waits_for_room && result.may_fit_later) {
    // The worker asks again and again, each time with another tag, until there is room.
    std::string request = absl::StrCat(open.resume_token, " ", open.label);
    if (waiting_ == request) return;
    waiting_ = std::move(request);
    event.kind = EventKind::kSequenceWaiting;
    event.code.reset();
  }
  Record(std::move(event));
}

void SessionTranslator::RecordClaim(const ClaimSequence& claim,
                                    const absl::StatusOr<cache::Claimed>& claimed) {
  if (claimed.ok()) {
    Record({.kind = EventKind::kSequenceClaimed,
            .sequence = claimed->sequence,
            .label = claimed->label,
            .tokens = claimed->logical_length,
            .lease_epoch = claimed->lease_epoch});
    return;
  }
  // The client asks again until the last worker's process has ended, or its worker asks again until
  // there is room.
  if (absl::IsUnavailable(claimed.status()) || cache::MayFitLater(claimed.status())) return;
  Record({.kind = EventKind::kSequenceRefused,
          .sequence = claim.sequence,
          .code = claimed.status().code(),
          .text = std::string(claimed.status().message())});
}

void SessionTranslator::Record(Event event) {
  if (!event_log_.kept()) return;
  event.worker = worker_;
  event_log_.Append(std::move(event));
}

}  // namespace folio::manager
