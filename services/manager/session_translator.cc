#include "services/manager/session_translator.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/logging.h"
#include "services/manager/convert.h"

namespace folio::manager {
namespace {

void AddError(uint64_t sequence, const absl::Status& status, v1::SessionReply& reply) {
  v1::SequenceError* error = reply.add_failed();
  error->set_sequence_id(sequence);
  error->set_code(static_cast<int>(status.code()));
  error->set_message(std::string(status.message()));
}

void AddOutcome(uint64_t sequence, const absl::StatusOr<cache::Outcome>& outcome,
                v1::SessionReply& reply) {
  if (!outcome.ok()) {
    AddError(sequence, outcome.status(), reply);
    return;
  }
  if (!outcome->granted.empty()) {
    *reply.add_granted() = GrantToProto(SequenceId(sequence), outcome->granted);
  }
  if (outcome->plan.has_value()) *reply.add_plans() = PlanToProto(*outcome->plan);
}

const char* ReasonName(v1::CloseReason reason) {
  switch (reason) {
    case v1::CLOSE_REASON_FINISHED:
      return "finished";
    case v1::CLOSE_REASON_CANCELLED:
      return "cancelled";
    case v1::CLOSE_REASON_DEADLINE:
      return "deadline";
    case v1::CLOSE_REASON_ERROR:
      return "error";
    default:
      return "unspecified";
  }
}

// An end that nobody wanted is worth a line; the others are as many as there are requests.
void LogClosed(const v1::CloseSequence& close, WorkerId worker) {
  const bool error = close.reason() == v1::CLOSE_REASON_ERROR;
  const log::Level level = error ? log::Level::kInfo : log::Level::kDebug;
  if (!log::Enabled(level)) return;
  log::Write(level, "sequence closed",
             {{"sequence", close.sequence_id()},
              {"worker", WorkerName(worker)},
              {"reason", ReasonName(close.reason())}});
}

}  // namespace

SessionTranslator::SessionTranslator(cache::Coordinator& coordinator, WorkerId worker,
                                     const CacheRules& rules,
                                     std::function<absl::Status()> may_open)
    : coordinator_(coordinator), worker_(worker), rules_(rules), may_open_(std::move(may_open)) {}

absl::StatusOr<v1::SessionReply> SessionTranslator::Translate(const v1::SessionRequest& request) {
  if (last_step_.has_value() && request.step() <= *last_step_) {
    return absl::InvalidArgumentError(absl::StrCat("step: ", request.step(), " does not follow ",
                                                   *last_step_, "; it must grow strictly"));
  }
  if (last_step_.has_value() && request.has_hello()) {
    return absl::InvalidArgumentError("hello: only the first request of a session carries it");
  }
  if (absl::Status status = coordinator_.Renew(worker_); !status.ok()) return status;
  last_step_ = request.step();

  v1::SessionReply reply;
  reply.set_step(request.step());
  for (const v1::AckPlan& ack : request.ack()) Ack(ack, reply);
  for (const v1::CommitTokens& commit : request.commit()) Commit(commit, reply);
  for (const v1::CloseSequence& close : request.close()) Close(close, reply);
  for (const v1::ClaimSequence& claim : request.claim()) *reply.add_claimed() = Claim(claim);
  for (const v1::OpenSequence& open : request.open()) *reply.add_opened() = Open(open);
  return reply;
}

void SessionTranslator::Ack(const v1::AckPlan& ack, v1::SessionReply& reply) {
  AddOutcome(ack.sequence_id(),
             coordinator_.Ack(worker_, SequenceId(ack.sequence_id()), LeaseEpoch(ack.lease_epoch()),
                              PlanEpoch(ack.plan_epoch())),
             reply);
}

void SessionTranslator::Commit(const v1::CommitTokens& commit, v1::SessionReply& reply) {
  AddOutcome(commit.sequence_id(), coordinator_.Commit(CommitFromProto(commit, worker_)), reply);
}

void SessionTranslator::Close(const v1::CloseSequence& close, v1::SessionReply& reply) {
  const absl::Status status =
      coordinator_.Close(worker_, SequenceId(close.sequence_id()), LeaseEpoch(close.lease_epoch()));
  if (!status.ok()) {
    AddError(close.sequence_id(), status, reply);
    return;
  }
  LogClosed(close, worker_);
}

v1::OpenResult SessionTranslator::Open(const v1::OpenSequence& open) {
  const auto attempt = [&]() -> absl::StatusOr<cache::Opened> {
    if (may_open_) {
      if (absl::Status status = may_open_(); !status.ok()) return status;
    }
    auto request = OpenFromProto(open, worker_, rules_);
    if (!request.ok()) return request.status();
    return coordinator_.Open(*request);
  };
  const absl::StatusOr<cache::Opened> opened = attempt();
  v1::OpenResult result;
  if (opened.ok()) {
    result = OpenedToProto(*opened);
    for (const SequenceId id : opened->ended) {
      log::Info("orphan ended", {{"sequence", id}, {"why", "others need its pages"}});
    }
  } else {
    result.set_code(static_cast<int>(opened.status().code()));
    result.set_message(std::string(opened.status().message()));
  }
  result.set_request_tag(open.request_tag());
  return result;
}

v1::ClaimResult SessionTranslator::Claim(const v1::ClaimSequence& claim) {
  const auto attempt = [&]() -> absl::StatusOr<cache::Claimed> {
    if (may_open_) {
      if (absl::Status status = may_open_(); !status.ok()) return status;
    }
    return coordinator_.Claim(ClaimFromProto(claim, worker_));
  };
  const absl::StatusOr<cache::Claimed> claimed = attempt();
  v1::ClaimResult result;
  if (claimed.ok()) {
    result = ClaimedToProto(*claimed);
    log::Info("orphan claimed", {{"sequence", claimed->sequence},
                                 {"worker", WorkerName(worker_)},
                                 {"lease_epoch", claimed->lease_epoch},
                                 {"length", claimed->logical_length}});
  } else {
    result.set_code(static_cast<int>(claimed.status().code()));
    result.set_message(std::string(claimed.status().message()));
  }
  result.set_request_tag(claim.request_tag());
  return result;
}

}  // namespace folio::manager
