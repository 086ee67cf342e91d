#include "services/client/resumption.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace folio::client {

Resumption::Resumption(const folio::v1::GenerateRequest& request) : request_(request) {
  // A request to resume by hand names the tokens that came before.
  *resume_.mutable_received_tokens() = request.resume().received_tokens();
}

void Resumption::Note(const folio::v1::GenerateResponse& event) {
  if (event.prefill().queue_position() > 0) return;  // it waits, and nothing has begun
  if (!begun_) request_.Clear();
  begun_ = true;
  finished_ = finished_ || event.has_finished();
  if (event.has_started()) {
    resume_.set_sequence_id(event.started().sequence_id());
    resume_.set_resume_token(event.started().resume_token());
  }
  resume_.mutable_received_tokens()->MergeFrom(event.chunk().tokens());
  if (event.has_chunk() || event.has_prefill()) until_.reset();
}

bool Resumption::IsLoss(const absl::Status& why, bool cancelled) {
  return absl::IsUnavailable(why) || (absl::IsCancelled(why) && !cancelled);
}

bool Resumption::HasTime(absl::Duration resume, SteadyTime deadline) {
  const SteadyTime now = SteadyNow();
  if (!until_) until_ = std::min(now + resume, deadline);
  return now + 2 * kResumePause < *until_;
}

folio::v1::GenerateRequest Resumption::NextRequest() const {
  if (!begun_) return request_;
  folio::v1::GenerateRequest resumption;
  *resumption.mutable_resume() = resume_;
  return resumption;
}

absl::Status Resumption::NotResumed(const absl::Status& why, const absl::Status& last) const {
  if (last.ok()) return why;
  if (!begun_) return last;
  return {why.code(), absl::StrCat(why.message(), "; not resumed: ", last.message())};
}

}  // namespace folio::client
