#include "services/client/resumption.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::client {
namespace {

bool IsLoss(const absl::Status& why) { return absl::IsUnavailable(why) || absl::IsCancelled(why); }

// How a manager that does not have the sequence answers. One that was started without the record of
// the last one may have given its number to another sequence, whose token is another one. A
// sequence that it has given up, because it may be what ends its workers, is ABORTED.
bool IsGone(const absl::Status& why) {
  return absl::IsNotFound(why) || absl::IsPermissionDenied(why);
}

}  // namespace

Resumption::Resumption(const folio::v1::GenerateRequest& request, const CallOptions& options)
    : time_(options.resume),
      deadline_(options.deadline),
      // Some of the reported evictions would come twice.
      keeps_request_(options.replay && !request.has_resume() && !request.report_evictions()),
      request_(request) {
  // A request to resume or replay by hand names the tokens that came before.
  auto* received = resume_.mutable_received_tokens();
  received->MergeFrom(request.resume().received_tokens());
  received->MergeFrom(request.replay().received_tokens());
}

bool Resumption::Take(folio::v1::GenerateResponse* event) {
  if (misunderstood_) return false;
  if (event->prefill().queue_position() > 0) return !begun_;  // it waits, and nothing has begun
  const bool first = !std::exchange(begun_, true);
  if (first && !keeps_request_) request_.Clear();
  if (event->has_started()) return TakeStarted(event->started(), first);
  lost_.reset();
  if (event->has_chunk() || event->has_prefill()) until_.reset();
  if (event->has_prefill()) {
    // A prompt that is computed again says again how far it has come.
    const uint32_t done = event->prefill().done_tokens();
    return done > std::exchange(prefilled_, std::max(done, prefilled_));
  }
  if (event->has_chunk()) {
    resume_.mutable_received_tokens()->MergeFrom(event->chunk().tokens());
  } else if (event->has_finished()) {
    finished_ = true;
    event->mutable_finished()->set_replays(replays_);
  }
  return true;
}

bool Resumption::TakeStarted(const folio::v1::Started& started, bool first) {
  if (replaying_) {
    const auto received = static_cast<uint32_t>(resume_.received_tokens_size());
    misunderstood_ = started.replayed_tokens() != received;
    if (misunderstood_) return false;
    replaying_ = false;
    ++replays_;
    until_.reset();
  }
  lost_.reset();
  seed_ = started.seed();
  resume_.set_sequence_id(started.sequence_id());
  resume_.set_resume_token(started.resume_token());
  if (first) fingerprint_ = started.model_fingerprint();
  return first;
}

bool Resumption::Follows(const absl::Status& status, bool cancelled) {
  if (finished_ || cancelled || misunderstood_) return false;
  const bool loss = IsLoss(status);
  if (!lost_.has_value()) {
    if (!loss) return false;
    lost_ = status;
    asked_ = false;
  }
  const bool gone = begun_ && !replaying_ && asked_ && IsGone(status);
  // A replay that meets another model looks for a worker of its own.
  const bool other_model = replaying_ && absl::IsFailedPrecondition(status);
  const bool again =
      (loss && (!begun_ || replaying_ || !resume_.resume_token().empty())) || other_model;
  // A worker cuts a client that does not read with CANCELLED, and what it closed is not computed
  // for that client again.
  const bool may_replay =
      gone && absl::IsUnavailable(*lost_) && keeps_request_ && replays_ < kMaxReplays;
  if ((!may_replay && !again) || !HasTime()) return false;
  if (may_replay) {
    replaying_ = true;
    replay_attempts_ = 0;
  } else if (replaying_) {
    ++replay_attempts_;
  }
  return true;
}

absl::Duration Resumption::pause() const {
  const uint32_t doubled = std::min(replay_attempts_, 8U);
  return replaying_ ? std::min(kResumePause * (1U << doubled), kLongestReplayPause) : kResumePause;
}

// Whether there is time for a pause and an attempt that lasts as long as the shortest one.
bool Resumption::HasTime() {
  const SteadyTime now = SteadyNow();
  if (!until_) until_ = std::min(now + time_, deadline_);
  return now + pause() + kResumePause < *until_;
}

folio::v1::GenerateRequest Resumption::NextRequest() {
  asked_ = true;
  if (!begun_) return request_;
  folio::v1::GenerateRequest next;
  if (replaying_) {
    next = request_;
    next.mutable_sampling()->set_seed(seed_);
    *next.mutable_replay()->mutable_received_tokens() = resume_.received_tokens();
    next.mutable_replay()->set_model_fingerprint(fingerprint_);
  } else {
    *next.mutable_resume() = resume_;
  }
  return next;
}

absl::Status Resumption::Ended(absl::Status last) const {
  if (misunderstood_) {
    last = absl::UnimplementedError("the worker is older than version 0.2 and knows no replays");
  }
  if (!begun_ || !lost_.has_value() || !asked_) return last;
  return {lost_->code(),
          absl::StrCat(lost_->message(),
                       replaying_ ? "; not replayed: " : "; not resumed: ", last.message())};
}

}  // namespace folio::client
