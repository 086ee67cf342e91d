// The half of session.h about requests, which a worker sends.
#include <algorithm>
#include <limits>

#include "services/base/check.h"
#include "services/wire/sampling.h"
#include "services/wire/session.h"

namespace folio::wire {
namespace {

static_assert(static_cast<int>(CloseReason::kUnspecified) == v1::CLOSE_REASON_UNSPECIFIED &&
              static_cast<int>(CloseReason::kFinished) == v1::CLOSE_REASON_FINISHED &&
              static_cast<int>(CloseReason::kCancelled) == v1::CLOSE_REASON_CANCELLED &&
              static_cast<int>(CloseReason::kDeadline) == v1::CLOSE_REASON_DEADLINE &&
              static_cast<int>(CloseReason::kError) == v1::CLOSE_REASON_ERROR &&
              v1::CloseReason_ARRAYSIZE == 5);

// Bytes that FromProto, or a worker from a message of the same type, has serialised.
template <typename Message>
void ParseInto(const std::string& bytes, Message* out) {
  FOLIO_CHECK(out->ParseFromString(bytes));
}

void Write(const OpenSequence& open, v1::OpenSequence* out) {
  out->set_request_tag(open.request_tag);
  out->mutable_prompt_tokens()->Reserve(static_cast<int>(open.prompt.size()));
  for (const TokenId token : open.prompt) out->add_prompt_tokens(token.value());
  out->set_max_new_tokens(open.max_new_tokens.value());
  ParseInto(open.cache.bytes, out->mutable_cache());
  *out->mutable_sampling() = ToProto(open.sampling);
  out->set_label(open.label);
  out->set_resume_token(open.resume_token);
  ParseInto(open.output, out->mutable_output());
  out->set_waits_for_room(open.waits_for_room);
  out->set_prefill_ahead_tokens(open.prefill_ahead.value());
  out->set_may_be_parked(open.may_be_parked);
  out->set_compacts_in_prefill(open.compacts_in_prefill);
  out->set_may_be_swapped(open.may_be_swapped);
  out->set_priority(open.urgency.priority);
  out->set_tenant(open.tenant);
  out->set_waited_ms(static_cast<uint32_t>(std::clamp<int64_t>(
      absl::ToInt64Milliseconds(open.urgency.waited), 0, std::numeric_limits<uint32_t>::max())));
}

void Write(const ClaimSequence& claim, v1::ClaimSequence* out) {
  out->set_request_tag(claim.request_tag);
  out->set_sequence_id(claim.sequence.value());
  out->set_resume_token(claim.resume_token);
  out->set_prefill_ahead_tokens(claim.prefill_ahead.value());
  out->set_may_be_parked(claim.may_be_parked);
  out->set_compacts_in_prefill(claim.compacts_in_prefill);
  out->set_may_be_swapped(claim.may_be_swapped);
  if (claim.tenant.has_value()) out->set_tenant(*claim.tenant);
}

void Write(const CommitTokens& commit, v1::CommitTokens* out) {
  out->set_sequence_id(commit.sequence.value());
  out->set_lease_epoch(commit.lease_epoch.value());
  out->set_logical_length(commit.logical_length.value());
  for (const TokenId token : commit.sampled) out->add_sampled_tokens(token.value());
  for (const PageRef& ref : commit.filled) {
    v1::PageRef* filled = out->add_filled();
    filled->set_page(ref.page.value());
    filled->set_generation(ref.generation.value());
  }
}

void Write(const AckPlan& ack, v1::AckPlan* out) {
  out->set_sequence_id(ack.sequence.value());
  out->set_lease_epoch(ack.lease_epoch.value());
  out->set_plan_epoch(ack.plan_epoch.value());
}

void Write(const CloseSequence& close, v1::CloseSequence* out) {
  out->set_sequence_id(close.sequence.value());
  out->set_lease_epoch(close.lease_epoch.value());
  out->set_reason(static_cast<v1::CloseReason>(close.reason));
}

void Write(const StepProgress& progress, v1::StepProgress* out) {
  out->set_steps_done(progress.steps_done);
  out->set_in_flight_ms(progress.in_flight_ms);
}

OpenSequence Read(const v1::OpenSequence& open) {
  OpenSequence out;
  out.request_tag = open.request_tag();
  out.prompt.reserve(open.prompt_tokens_size());
  for (const uint32_t token : open.prompt_tokens()) out.prompt.emplace_back(token);
  out.max_new_tokens = TokenCount(open.max_new_tokens());
  out.cache.bytes = open.cache().SerializeAsString();
  out.sampling = FromProto(open.sampling());
  out.label = open.label();
  out.resume_token = open.resume_token();
  out.output = open.output().SerializeAsString();
  out.waits_for_room = open.waits_for_room();
  out.prefill_ahead = TokenCount(open.prefill_ahead_tokens());
  out.may_be_parked = open.may_be_parked();
  out.compacts_in_prefill = open.compacts_in_prefill();
  out.may_be_swapped = open.may_be_swapped();
  out.urgency = {open.priority(), absl::Milliseconds(open.waited_ms())};
  out.tenant = open.tenant();
  return out;
}

CommitTokens Read(const v1::CommitTokens& commit) {
  CommitTokens out;
  out.sequence = SequenceId(commit.sequence_id());
  out.lease_epoch = LeaseEpoch(commit.lease_epoch());
  out.logical_length = TokenCount(commit.logical_length());
  out.sampled.reserve(commit.sampled_tokens_size());
  for (const uint32_t token : commit.sampled_tokens()) out.sampled.emplace_back(token);
  out.filled.reserve(commit.filled_size());
  for (const v1::PageRef& ref : commit.filled()) {
    out.filled.push_back({PageId(ref.page()), Generation(ref.generation())});
  }
  return out;
}

CloseSequence Read(const v1::CloseSequence& close) {
  CloseSequence out = {SequenceId(close.sequence_id()), LeaseEpoch(close.lease_epoch()),
                       CloseReason::kUnspecified};
  // The reason is for the log alone: one of a later version is left out.
  if (v1::CloseReason_IsValid(close.reason())) {
    out.reason = static_cast<CloseReason>(close.reason());
  }
  return out;
}

}  // namespace

v1::SessionRequest ToProto(const SessionRequest& request) {
  v1::SessionRequest out;
  out.set_step(request.step);
  for (const OpenSequence& open : request.open) Write(open, out.add_open());
  for (const ClaimSequence& claim : request.claim) Write(claim, out.add_claim());
  for (const CommitTokens& commit : request.commit) Write(commit, out.add_commit());
  for (const AckPlan& ack : request.ack) Write(ack, out.add_ack());
  for (const CloseSequence& close : request.close) Write(close, out.add_close());
  for (const ParkSequence& park : request.park) {
    v1::ParkSequence* message = out.add_park();
    message->set_sequence_id(park.sequence.value());
    message->set_lease_epoch(park.lease_epoch.value());
    message->set_swapped(park.swapped);
  }
  for (const UnparkSequence& unpark : request.unpark) {
    v1::UnparkSequence* message = out.add_unpark();
    message->set_sequence_id(unpark.sequence.value());
    message->set_lease_epoch(unpark.lease_epoch.value());
  }
  if (request.progress.has_value()) Write(*request.progress, out.mutable_progress());
  return out;
}

SessionRequest FromProto(const v1::SessionRequest& request) {
  SessionRequest out;
  out.step = request.step();
  for (const v1::OpenSequence& open : request.open()) out.open.push_back(Read(open));
  for (const v1::ClaimSequence& claim : request.claim()) {
    out.claim.push_back({claim.request_tag(), SequenceId(claim.sequence_id()), claim.resume_token(),
                         TokenCount(claim.prefill_ahead_tokens()), claim.may_be_parked(),
                         claim.compacts_in_prefill(), claim.may_be_swapped()});
    if (claim.has_tenant()) out.claim.back().tenant = claim.tenant();
  }
  for (const v1::CommitTokens& commit : request.commit()) out.commit.push_back(Read(commit));
  for (const v1::AckPlan& ack : request.ack()) {
    out.ack.push_back({SequenceId(ack.sequence_id()), LeaseEpoch(ack.lease_epoch()),
                       PlanEpoch(ack.plan_epoch())});
  }
  for (const v1::CloseSequence& close : request.close()) out.close.push_back(Read(close));
  for (const v1::ParkSequence& park : request.park()) {
    out.park.push_back(
        {SequenceId(park.sequence_id()), LeaseEpoch(park.lease_epoch()), park.swapped()});
  }
  for (const v1::UnparkSequence& unpark : request.unpark()) {
    out.unpark.push_back({SequenceId(unpark.sequence_id()), LeaseEpoch(unpark.lease_epoch())});
  }
  if (request.has_progress()) {
    out.progress = {request.progress().steps_done(), request.progress().in_flight_ms()};
  }
  return out;
}

}  // namespace folio::wire
