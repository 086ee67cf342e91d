#include "services/client/steering.h"

#include "services/client/admin_client_state.h"

namespace folio::client {

absl::Status Steering::Close(uint64_t sequence_id, const std::string& reason,
                             const CallOptions& options) {
  folio::v1::CloseSequenceRequest request;
  request.set_sequence_id(sequence_id);
  request.set_reason(reason);
  return client_.state_->Call(&AdminClient::State::Callbacks::CloseSequence, request, options)
      .status();
}

absl::Status Steering::Park(uint64_t sequence_id, const std::string& reason,
                            const CallOptions& options) {
  folio::v1::ParkSequenceRequest request;
  request.set_sequence_id(sequence_id);
  request.set_reason(reason);
  return client_.state_->Call(&AdminClient::State::Callbacks::ParkSequence, request, options)
      .status();
}

absl::Status Steering::Pin(uint64_t sequence_id, bool undo, const std::string& reason,
                           const CallOptions& options) {
  folio::v1::PinSequenceRequest request;
  request.set_sequence_id(sequence_id);
  request.set_undo(undo);
  request.set_reason(reason);
  return client_.state_->Call(&AdminClient::State::Callbacks::PinSequence, request, options)
      .status();
}

absl::StatusOr<folio::v1::LowerBudgetResponse> Steering::LowerBudget(uint64_t sequence_id,
                                                                     uint32_t budget_tokens,
                                                                     const std::string& reason,
                                                                     const CallOptions& options) {
  folio::v1::LowerBudgetRequest request;
  request.set_sequence_id(sequence_id);
  request.set_budget_tokens(budget_tokens);
  request.set_reason(reason);
  return client_.state_->Call(&AdminClient::State::Callbacks::LowerBudget, request, options);
}

absl::Status Steering::SetQuota(const std::string& tenant, const folio::v1::Quota& quota,
                                const std::string& reason, const CallOptions& options) {
  folio::v1::SetQuotaRequest request;
  request.set_tenant(tenant);
  *request.mutable_quota() = quota;
  request.set_reason(reason);
  return client_.state_->Call(&AdminClient::State::Callbacks::SetQuota, request, options).status();
}

absl::StatusOr<uint32_t> Steering::Drain(const std::string& worker_id, bool undo,
                                         const std::string& reason, const CallOptions& options) {
  folio::v1::DrainRequest request;
  request.set_worker_id(worker_id);
  request.set_undo(undo);
  request.set_reason(reason);
  const auto response =
      client_.state_->Call(&AdminClient::State::Callbacks::Drain, request, options);
  if (!response.ok()) return response.status();
  return response->sequences();
}

absl::StatusOr<uint32_t> Steering::ReleaseQuarantine(const std::string& worker_id,
                                                     const std::string& reason,
                                                     const CallOptions& options) {
  folio::v1::ReleaseQuarantineRequest request;
  request.set_worker_id(worker_id);
  request.set_process_has_ended(true);
  request.set_reason(reason);
  const auto response =
      client_.state_->Call(&AdminClient::State::Callbacks::ReleaseQuarantine, request, options);
  if (!response.ok()) return response.status();
  return response->freed_pages();
}

}  // namespace folio::client
