// AdminService is the gRPC service for operators. It shows what the manager holds and for which
// worker. The calls that change something are in steering_service.h.
#ifndef FOLIO_SERVICES_MANAGER_ADMIN_SERVICE_H_
#define FOLIO_SERVICES_MANAGER_ADMIN_SERVICE_H_

#include <google/protobuf/message.h>

#include <atomic>
#include <chrono>
#include <string>

#include "absl/time/time.h"
#include "folio/v1/admin.grpc.pb.h"
#include "services/access/gate.h"
#include "services/cache/inspector.h"
#include "services/cache/tenant_quotas.h"
#include "services/grpc/grpc_status.h"
#include "services/manager/event_log.h"
#include "services/manager/kept_quotas.h"
#include "services/manager/served_pools.h"
#include "services/manager/steering_service.h"
#include "services/policy/budget.h"

namespace folio::manager {

// Thread-safe.
class AdminService final : public SteeringService {
 public:
  // Flags of the manager that operators are told.
  struct Settings {
    policy::BudgetRules budgets;  // also for the settings that ExplainEviction tries
    absl::Duration lease_ttl;
    absl::Duration kill_fenced_after;  // 0: never
    bool steering = true;
    std::string boot_id;  // of this start of the manager
  };

  // Borrows all but the settings.
  AdminService(ServedPools* pools, EventLog* event_log, KeptQuotas* quotas, access::Gate* gate,
               const Settings& settings)
      : SteeringService(pools, event_log, quotas, gate, settings.steering),
        pools_(pools),
        event_log_(event_log),
        quotas_(&quotas->quotas()),
        settings_(settings) {}

  grpc::Status ListPools(grpc::ServerContext* context, const v1::ListPoolsRequest* request,
                         v1::ListPoolsResponse* response) override {
    return Served(*request, *context, [&] { return Answer(*request, response); });
  }
  grpc::Status ListSequences(grpc::ServerContext* context, const v1::ListSequencesRequest* request,
                             v1::ListSequencesResponse* response) override {
    return Served(*request, *context, [&] { return Answer(*request, response); });
  }
  grpc::Status GetSequence(grpc::ServerContext* context, const v1::GetSequenceRequest* request,
                           v1::GetSequenceResponse* response) override {
    return Served(*request, *context, [&] { return Answer(*request, response); });
  }
  grpc::Status ExplainEviction(grpc::ServerContext* context,
                               const v1::ExplainEvictionRequest* request,
                               v1::ExplainEvictionResponse* response) override {
    return Served(*request, *context, [&] { return Answer(*request, response); });
  }
  grpc::Status GetManager(grpc::ServerContext* context, const v1::GetManagerRequest* request,
                          v1::GetManagerResponse* response) override {
    return Served(*request, *context, [&] { return Answer(*request, response); });
  }
  grpc::Status ListWorkers(grpc::ServerContext* context, const v1::ListWorkersRequest* request,
                           v1::ListWorkersResponse* response) override {
    return Served(*request, *context, [&] { return Answer(*request, response); });
  }
  grpc::Status ListTenants(grpc::ServerContext* context, const v1::ListTenantsRequest* request,
                           v1::ListTenantsResponse* response) override {
    return Served(*request, *context, [&] { return Answer(*request, response); });
  }
  grpc::Status ListPages(grpc::ServerContext* context, const v1::ListPagesRequest* request,
                         grpc::ServerWriter<v1::ListPagesResponse>* writer) override {
    return Served(*request, *context, [&] { return Write(*context, *request, writer); });
  }
  // Holds its thread until the stream ends. EventLog bounds how many do.
  grpc::Status WatchEvents(grpc::ServerContext* context, const v1::WatchEventsRequest* request,
                           grpc::ServerWriter<v1::WatchEventsResponse>* writer) override {
    return Served(*request, *context, [&] { return Follow(context, *request, writer); });
  }

 private:
  grpc::Status Answer(const v1::ListPoolsRequest& request, v1::ListPoolsResponse* response);
  grpc::Status Answer(const v1::ListSequencesRequest& request, v1::ListSequencesResponse* response);
  grpc::Status Answer(const v1::GetSequenceRequest& request, v1::GetSequenceResponse* response);
  grpc::Status Answer(const v1::ExplainEvictionRequest& request,
                      v1::ExplainEvictionResponse* response);
  grpc::Status Answer(const v1::GetManagerRequest& request, v1::GetManagerResponse* response);
  grpc::Status Answer(const v1::ListWorkersRequest& request, v1::ListWorkersResponse* response);
  grpc::Status Answer(const v1::ListTenantsRequest& request, v1::ListTenantsResponse* response);
  absl::StatusOr<cache::Explanation> Explain(const v1::ExplainEvictionRequest& request,
                                             const Pool& pool) const;
  grpc::Status Write(const grpc::ServerContext& context, const v1::ListPagesRequest& request,
                     grpc::ServerWriter<v1::ListPagesResponse>* writer);
  grpc::Status Follow(grpc::ServerContext* context, const v1::WatchEventsRequest& request,
                      grpc::ServerWriter<v1::WatchEventsResponse>* writer);
  // Answers if the caller may look, and writes a line of level debug about the call.
  template <typename Work>
  grpc::Status Served(const google::protobuf::Message& request, const grpc::ServerContext& context,
                      Work work) {
    const auto caller = Admit(request, context);
    if (!caller.ok()) return ToGrpcStatus(caller.status());
    return Noted(request, context, *caller, work());
  }
  static grpc::Status Noted(const google::protobuf::Message& request,
                            const grpc::ServerContext& context, const access::Caller& caller,
                            grpc::Status status);

  const ServedPools* const pools_;
  EventLog* const event_log_;
  const cache::TenantQuotas* const quotas_;
  const Settings settings_;
  std::atomic_flag explaining_;     // set while a call computes an explanation
  std::atomic_flag listing_pages_;  // set while a call lists pages
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_ADMIN_SERVICE_H_
