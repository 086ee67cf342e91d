// gRPC edge of KvManager: reads, hands on, writes.
#ifndef FOLIO_SERVICES_MANAGER_KV_MANAGER_SERVICE_H_
#define FOLIO_SERVICES_MANAGER_KV_MANAGER_SERVICE_H_

#include "folio/v1/kv_manager.grpc.pb.h"
#include "services/manager/worker_roster.h"
#include "services/policy/budget.h"

namespace folio::manager {

// Thread-safe.
class KvManagerService final : public v1::KvManager::Service {
 public:
  // `roster` is borrowed. `budgets` hold for every sequence.
  KvManagerService(WorkerRoster* roster, const policy::BudgetRules& budgets)
      : roster_(roster), budgets_(budgets) {}

  grpc::Status Attach(grpc::ServerContext* context, const v1::AttachRequest* request,
                      v1::AttachResponse* response) override;
  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::SessionReply, v1::SessionRequest>* stream) override;

 private:
  WorkerRoster* const roster_;
  const policy::BudgetRules budgets_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_KV_MANAGER_SERVICE_H_
