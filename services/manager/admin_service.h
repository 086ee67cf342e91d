// gRPC edge of Admin: what the coordinator reports, as messages.
#ifndef FOLIO_SERVICES_MANAGER_ADMIN_SERVICE_H_
#define FOLIO_SERVICES_MANAGER_ADMIN_SERVICE_H_

#include "folio/v1/admin.grpc.pb.h"
#include "services/manager/worker_roster.h"

namespace folio::manager {

// Thread-safe. Changes nothing.
class AdminService final : public v1::Admin::Service {
 public:
  // `roster` is borrowed.
  explicit AdminService(const WorkerRoster* roster) : roster_(roster) {}

  grpc::Status ListPools(grpc::ServerContext* context, const v1::ListPoolsRequest* request,
                         v1::ListPoolsResponse* response) override;
  grpc::Status ListSequences(grpc::ServerContext* context, const v1::ListSequencesRequest* request,
                             v1::ListSequencesResponse* response) override;
  grpc::Status GetSequence(grpc::ServerContext* context, const v1::GetSequenceRequest* request,
                           v1::GetSequenceResponse* response) override;

 private:
  const WorkerRoster* const roster_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_ADMIN_SERVICE_H_
