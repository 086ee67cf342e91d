// KvManagerService is the gRPC service for workers. It converts messages and calls the registry and
// the session translator, and decides nothing itself.
#ifndef FOLIO_SERVICES_MANAGER_KV_MANAGER_SERVICE_H_
#define FOLIO_SERVICES_MANAGER_KV_MANAGER_SERVICE_H_

#include "folio/v1/kv_manager.grpc.pb.h"
#include "services/manager/worker_registry.h"
#include "services/policy/budget.h"

namespace folio::manager {

// Thread-safe.
class KvManagerService final : public v1::KvManager::Service {
 public:
  // `registry` is borrowed. `budgets` are the operator's rules for every sequence.
  KvManagerService(WorkerRegistry* registry, const policy::BudgetRules& budgets)
      : registry_(registry), budgets_(budgets) {}

  grpc::Status DescribePool(grpc::ServerContext* context, const v1::DescribePoolRequest* request,
                            v1::DescribePoolResponse* response) override;
  grpc::Status Attach(grpc::ServerContext* context, const v1::AttachRequest* request,
                      v1::AttachResponse* response) override;
  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::SessionReply, v1::SessionRequest>* stream) override;

 private:
  WorkerRegistry* const registry_;
  const policy::BudgetRules budgets_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_KV_MANAGER_SERVICE_H_
