// gRPC edge of Admin: what the coordinator reports, as messages.
#ifndef FOLIO_SERVICES_MANAGER_ADMIN_SERVICE_H_
#define FOLIO_SERVICES_MANAGER_ADMIN_SERVICE_H_

#include "folio/v1/admin.grpc.pb.h"
#include "services/manager/worker_roster.h"
#include "services/policy/budget.h"

namespace folio::manager {

// Thread-safe. Changes nothing.
class AdminService final : public v1::Admin::Service {
 public:
  // `roster` is borrowed. `budgets` hold for the settings that are asked about too.
  AdminService(const WorkerRoster* roster, const policy::BudgetRules& budgets)
      : roster_(roster), budgets_(budgets) {}

  grpc::Status ListPools(grpc::ServerContext* context, const v1::ListPoolsRequest* request,
                         v1::ListPoolsResponse* response) override;
  grpc::Status ListSequences(grpc::ServerContext* context, const v1::ListSequencesRequest* request,
                             v1::ListSequencesResponse* response) override;
  grpc::Status GetSequence(grpc::ServerContext* context, const v1::GetSequenceRequest* request,
                           v1::GetSequenceResponse* response) override;
  grpc::Status ExplainEviction(grpc::ServerContext* context,
                               const v1::ExplainEvictionRequest* request,
                               v1::ExplainEvictionResponse* response) override;

 private:
  const WorkerRoster* const roster_;
  const policy::BudgetRules budgets_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_ADMIN_SERVICE_H_
