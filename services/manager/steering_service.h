// SteeringService is the part of the Admin service that changes something: it ends, parks and pins
// sequences, lowers their budgets, sets quotas, drains, and gives quarantined pages back. Each call
// that did something leaves an event and a line in the log, with the operator's reason and address.
//
// Thread-safe. The errors are those of proto/folio/v1/admin.proto, which name the field.
#ifndef FOLIO_SERVICES_MANAGER_STEERING_SERVICE_H_
#define FOLIO_SERVICES_MANAGER_STEERING_SERVICE_H_

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "folio/v1/admin.grpc.pb.h"
#include "services/access/gate.h"
#include "services/manager/event_log.h"
#include "services/manager/kept_quotas.h"
#include "services/manager/served_pools.h"

namespace folio::manager {

class SteeringService : public v1::Admin::Service {
 public:
  // Borrows all. Without `enabled` all calls are refused.
  SteeringService(ServedPools* pools, EventLog* event_log, KeptQuotas* quotas, access::Gate* gate,
                  bool enabled)
      : pools_(pools), events_(event_log), quotas_(quotas), gate_(gate), enabled_(enabled) {}

  grpc::Status CloseSequence(grpc::ServerContext* context, const v1::CloseSequenceRequest* request,
                             v1::CloseSequenceResponse* response) override;
  grpc::Status ParkSequence(grpc::ServerContext* context, const v1::ParkSequenceRequest* request,
                            v1::ParkSequenceResponse* response) override;
  grpc::Status PinSequence(grpc::ServerContext* context, const v1::PinSequenceRequest* request,
                           v1::PinSequenceResponse* response) override;
  grpc::Status LowerBudget(grpc::ServerContext* context, const v1::LowerBudgetRequest* request,
                           v1::LowerBudgetResponse* response) override;
  grpc::Status SetQuota(grpc::ServerContext* context, const v1::SetQuotaRequest* request,
                        v1::SetQuotaResponse* response) override;
  grpc::Status Drain(grpc::ServerContext* context, const v1::DrainRequest* request,
                     v1::DrainResponse* response) override;
  grpc::Status ReleaseQuarantine(grpc::ServerContext* context,
                                 const v1::ReleaseQuarantineRequest* request,
                                 v1::ReleaseQuarantineResponse* response) override;

  bool enabled() const { return enabled_; }

 protected:
  // The caller of the call that has this request, if it has the right that the call needs. Errors
  // as of Gate::Admit.
  absl::StatusOr<access::Caller> Admit(const google::protobuf::Message& request,
                                       const grpc::ServerContext& context) const;

 private:
  // An order as event and log tell it. Borrows all.
  struct Order {
    const std::string& reason;
    const std::string& caller;
    const grpc::ServerContext& context;
    const PoolEvents& events;  // of its pool, or of the manager
  };
  // The caller's name. UNAUTHENTICATED, PERMISSION_DENIED or INVALID_ARGUMENT, as all these calls
  // have them.
  template <typename Request>
  absl::StatusOr<std::string> MayOrder(const Request& request,
                                       const grpc::ServerContext& context) const;
  // Leaves the event and the line.
  void Note(Event event, const char* what, const Order& order) const;

  ServedPools* const pools_;
  const PoolEvents events_;  // of no pool
  KeptQuotas* const quotas_;
  access::Gate* const gate_;
  const bool enabled_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_STEERING_SERVICE_H_
