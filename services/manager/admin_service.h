// AdminService is the gRPC service for operators. It shows what the manager holds and for which
// worker, and changes nothing.
#ifndef FOLIO_SERVICES_MANAGER_ADMIN_SERVICE_H_
#define FOLIO_SERVICES_MANAGER_ADMIN_SERVICE_H_

#include <chrono>

#include "folio/v1/admin.grpc.pb.h"
#include "services/manager/worker_registry.h"
#include "services/policy/budget.h"

namespace folio::manager {

// Thread-safe.
class AdminService final : public v1::Admin::Service {
 public:
  // `registry` is borrowed. `budgets` also hold for the settings that ExplainEviction tries.
  AdminService(const WorkerRegistry* registry, const policy::BudgetRules& budgets)
      : registry_(registry), budgets_(budgets) {}

  grpc::Status ListPools(grpc::ServerContext* context, const v1::ListPoolsRequest* request,
                         v1::ListPoolsResponse* response) override;
  grpc::Status ListSequences(grpc::ServerContext* context, const v1::ListSequencesRequest* request,
                             v1::ListSequencesResponse* response) override;
  grpc::Status GetSequence(grpc::ServerContext* context, const v1::GetSequenceRequest* request,
                           v1::GetSequenceResponse* response) override;
  grpc::Status ExplainEviction(grpc::ServerContext* context,
                               const v1::ExplainEvictionRequest* request,
                               v1::ExplainEvictionResponse* response) override;
  grpc::Status GetManager(grpc::ServerContext* context, const v1::GetManagerRequest* request,
                          v1::GetManagerResponse* response) override;

 private:
  const WorkerRegistry* const registry_;
  const policy::BudgetRules budgets_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_ADMIN_SERVICE_H_
