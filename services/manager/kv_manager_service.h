// KvManagerService is the gRPC service for workers. It converts messages and calls the registry and
// the session translator, and decides nothing itself.
#ifndef FOLIO_SERVICES_MANAGER_KV_MANAGER_SERVICE_H_
#define FOLIO_SERVICES_MANAGER_KV_MANAGER_SERVICE_H_

#include "folio/v1/kv_manager.grpc.pb.h"
#include "services/access/gate.h"
#include "services/base/clock.h"
#include "services/manager/hello_watch.h"
#include "services/manager/served_pools.h"
#include "services/policy/budget.h"

namespace folio::manager {

// Thread-safe.
class KvManagerService final : public v1::KvManager::Service {
 public:
  // Borrows all but `budgets`, which are the operator's rules for every sequence. If the gate knows
  // callers, all calls over TCP are refused.
  KvManagerService(ServedPools* pools, const policy::BudgetRules& budgets, const Clock* clock,
                   access::Gate* gate)
      : pools_(pools), budgets_(budgets), gate_(gate), hellos_(clock, {}) {}

  // Ends sessions whose hello is late. Somebody must call it now and then.
  void EndMuteSessions() { hellos_.EndLate(); }

  grpc::Status DescribePool(grpc::ServerContext* context, const v1::DescribePoolRequest* request,
                            v1::DescribePoolResponse* response) override;
  grpc::Status Attach(grpc::ServerContext* context, const v1::AttachRequest* request,
                      v1::AttachResponse* response) override;
  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::SessionReply, v1::SessionRequest>* stream) override;

 private:
  // False if the stream has ended, or begins with something else.
  bool ReadHello(grpc::ServerContext* context,
                 grpc::ServerReaderWriter<v1::SessionReply, v1::SessionRequest>* stream,
                 v1::SessionRequest* request);

  ServedPools* const pools_;
  const policy::BudgetRules budgets_;
  access::Gate* const gate_;
  HelloWatch hellos_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_KV_MANAGER_SERVICE_H_
