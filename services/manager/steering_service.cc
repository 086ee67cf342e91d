#include "services/manager/steering_service.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/protocol.h"
#include "services/cache/steering.h"
#include "services/cache/tenant_quotas.h"
#include "services/grpc/grpc_status.h"
#include "services/manager/admin_needs.h"
#include "services/manager/cache_options.h"
#include "services/manager/quota_message.h"
#include "services/manager/text_size.h"
#include "services/manager/worker_name.h"
#include "services/runtime/logging.h"

namespace folio::manager {

absl::StatusOr<access::Caller> SteeringService::Admit(const google::protobuf::Message& request,
                                                      const grpc::ServerContext& context) const {
  const AdminCall call = AdminCallOf(request);
  return gate_->Admit(context, call.name, call.need);
}

template <typename Request>
absl::StatusOr<std::string> SteeringService::MayOrder(const Request& request,
                                                      const grpc::ServerContext& context) const {
  auto caller = Admit(request, context);
  if (!caller.ok()) return caller.status();
  if (!enabled_) {
    return absl::PermissionDeniedError(
        "the manager was started with --steering=false, so operators may look and change nothing");
  }
  absl::Status status = CheckTextSize("reason", request.reason(), kMaxLabelBytes);
  if (!status.ok()) return status;
  return std::move(caller->name);
}

void SteeringService::Note(Event event, const char* what, const Order& order) const {
  std::string target = event.worker.has_value() ? WorkerName(*event.worker) : "all workers";
  if (event.sequence.has_value()) target = absl::StrCat("sequence ", event.sequence->value());
  log::Warning(what, {{"target", target},
                      {"reason", order.reason},
                      {"peer", order.context.peer()},
                      {"caller", order.caller}});
  if (!order.reason.empty()) event.text = order.reason;
  order.events.Append(std::move(event));
}

grpc::Status SteeringService::CloseSequence(grpc::ServerContext* context,
                                            const v1::CloseSequenceRequest* request,
                                            v1::CloseSequenceResponse* response) {
  const auto caller = MayOrder(*request, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  const SequenceId id(request->sequence_id());
  std::string why = "an operator has ended the sequence";
  if (!request->reason().empty()) absl::StrAppend(&why, ": ", request->reason());
  const auto worker = pools_->OfSequence(id, [&](const ServedPool& served, const Pool& pool) {
    auto closed = cache::Steering(pool.coordinator()).Close(id, why);
    if (!closed.ok()) return closed;
    Note({.kind = EventKind::kCloseOrdered, .worker = *closed, .sequence = id},
         "an operator ends a sequence", {request->reason(), *caller, *context, served.events()});
    return closed;
  });
  return ToGrpcStatus(worker.status());
}

grpc::Status SteeringService::ParkSequence(grpc::ServerContext* context,
                                           const v1::ParkSequenceRequest* request,
                                           v1::ParkSequenceResponse* response) {
  const auto caller = MayOrder(*request, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  const SequenceId id(request->sequence_id());
  const auto worker = pools_->OfSequence(id, [&](const ServedPool& served, const Pool& pool) {
    auto parked = cache::Steering(pool.coordinator()).Park(id);
    if (!parked.ok()) return parked;
    Note({.kind = EventKind::kParkOrdered, .worker = *parked, .sequence = id},
         "an operator parks a sequence", {request->reason(), *caller, *context, served.events()});
    return parked;
  });
  return ToGrpcStatus(worker.status());
}

grpc::Status SteeringService::PinSequence(grpc::ServerContext* context,
                                          const v1::PinSequenceRequest* request,
                                          v1::PinSequenceResponse* response) {
  const auto caller = MayOrder(*request, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  const SequenceId id(request->sequence_id());
  const bool undo = request->undo();
  const auto worker = pools_->OfSequence(id, [&](const ServedPool& served, const Pool& pool) {
    cache::Steering steering(pool.coordinator());
    auto pinned = undo ? steering.Unpin(id) : steering.Pin(id);
    if (!pinned.ok()) return pinned;
    const EventKind kind = undo ? EventKind::kSequenceUnpinned : EventKind::kSequencePinned;
    Note({.kind = kind, .worker = *pinned, .sequence = id},
         undo ? "an operator unpins a sequence" : "an operator pins a sequence",
         {request->reason(), *caller, *context, served.events()});
    return pinned;
  });
  return ToGrpcStatus(worker.status());
}

grpc::Status SteeringService::LowerBudget(grpc::ServerContext* context,
                                          const v1::LowerBudgetRequest* request,
                                          v1::LowerBudgetResponse* response) {
  const auto caller = MayOrder(*request, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  const SequenceId id(request->sequence_id());
  const TokenCount budget(request->budget_tokens());
  const auto done = pools_->OfSequence(id, [&](const ServedPool& served, const Pool& pool) {
    auto lowered = cache::Steering(pool.coordinator()).LowerBudget(id, budget);
    if (!lowered.ok()) return lowered;
    Note({.kind = EventKind::kBudgetLowered,
          .worker = lowered->worker,
          .sequence = id,
          .pages = lowered->over,
          .tokens = lowered->cache.budget},
         "an operator lowers the budget of a sequence",
         {request->reason(), *caller, *context, served.events()});
    return lowered;
  });
  if (!done.ok()) return ToGrpcStatus(done.status());
  *response->mutable_cache() = CacheConfigToProto(done->cache);
  response->set_pages_over_budget(done->over.value());
  return grpc::Status::OK;
}

grpc::Status SteeringService::SetQuota(grpc::ServerContext* context,
                                       const v1::SetQuotaRequest* request,
                                       v1::SetQuotaResponse* response) {
  const auto caller = MayOrder(*request, *context);
  absl::Status status = caller.status();
  status.Update(CheckTextSize("tenant", request->tenant(), kMaxTenantBytes));
  if (!status.ok()) return ToGrpcStatus(status);
  if (!request->has_quota()) {
    return ToGrpcStatus(absl::InvalidArgumentError(
        "quota: is required; one without limits takes the tenant's quota away"));
  }
  const auto quota = QuotaFromProto(request->quota());
  if (!quota.ok()) return ToGrpcStatus(quota.status());
  status = quotas_->SetByOperator(request->tenant(), *quota);
  if (!status.ok()) return ToGrpcStatus(status);
  const std::string set = cache::QuotaText(*quota);
  log::Warning("an operator sets a quota", {{"tenant", request->tenant()},
                                            {"quota", set},
                                            {"reason", request->reason()},
                                            {"peer", context->peer()},
                                            {"caller", *caller}});
  Event event = {.kind = EventKind::kQuotaSet, .label = request->tenant(), .text = set};
  if (!request->reason().empty()) absl::StrAppend(&*event.text, ": ", request->reason());
  events_.Append(std::move(event));
  return grpc::Status::OK;
}

grpc::Status SteeringService::Drain(grpc::ServerContext* context, const v1::DrainRequest* request,
                                    v1::DrainResponse* response) {
  const auto caller = MayOrder(*request, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  Event event = {.kind = request->undo() ? EventKind::kDrainUndone : EventKind::kDrainOrdered};
  PoolEvents events = events_;
  if (request->worker_id().empty()) {
    pools_->drains().Order(!request->undo());
    response->set_sequences(pools_->RunningSequences());
  } else {
    const auto worker = pools_->FindWorker(request->worker_id());
    if (!worker.ok()) return ToGrpcStatus(worker.status());
    if (worker->report.fenced) {
      return ToGrpcStatus(absl::FailedPreconditionError(absl::StrCat(
          "worker_id: ", request->worker_id(), " is fenced, so it gets no sequences in any case")));
    }
    const WorkerRegistry& registry = worker->home->registry();
    registry.drains().Order(worker->report.id, !request->undo());
    event.worker = worker->report.id;
    event.worker_name = worker->report.name;
    events = worker->home->events();
    response->set_sequences(registry.RunningSequences(event.worker));
  }
  Note(std::move(event), request->undo() ? "an operator ends a drain" : "an operator drains",
       {request->reason(), *caller, *context, events});
  return grpc::Status::OK;
}

grpc::Status SteeringService::ReleaseQuarantine(grpc::ServerContext* context,
                                                const v1::ReleaseQuarantineRequest* request,
                                                v1::ReleaseQuarantineResponse* response) {
  const auto caller = MayOrder(*request, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  if (!request->process_has_ended()) {
    return ToGrpcStatus(absl::InvalidArgumentError(
        "process_has_ended: must be true, because a process that still runs would damage the "
        "sequences that get its pages; make sure that it has ended"));
  }
  const auto worker = pools_->FindWorker(request->worker_id());
  if (!worker.ok()) return ToGrpcStatus(worker.status());
  const auto freed = worker->home->registry().ReleaseQuarantine(worker->report.id);
  if (!freed.ok()) return ToGrpcStatus(freed.status());
  response->set_freed_pages(freed->value());
  Note({.kind = EventKind::kQuarantineReleased,
        .worker = worker->report.id,
        .worker_name = worker->report.name,
        .freed_pages = *freed},
       "an operator releases the quarantine of a worker",
       {request->reason(), *caller, *context, worker->home->events()});
  return grpc::Status::OK;
}

}  // namespace folio::manager
