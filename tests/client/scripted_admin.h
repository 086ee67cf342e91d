// ScriptedAdmin is a gRPC server in the test's process that answers for the Admin service alone, as
// its fields say, and keeps the orders that it got.
#ifndef FOLIO_TESTS_CLIENT_SCRIPTED_ADMIN_H_
#define FOLIO_TESTS_CLIENT_SCRIPTED_ADMIN_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "folio/v1/admin.grpc.pb.h"
#include "tests/common/temp_dir.h"

namespace folio::testing {

class ScriptedAdmin : private folio::v1::Admin::Service {
 public:
  // Listens on a Unix socket in a directory of its own.
  ScriptedAdmin() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(static_cast<folio::v1::Admin::Service*>(this));
    server_ = builder.BuildAndStart();
    server_->GetHealthCheckService()->SetServingStatus(true);
    server_->GetHealthCheckService()->SetServingStatus(folio::v1::Admin::service_full_name(), true);
  }
  ~ScriptedAdmin() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  // Set these before calls are made.
  grpc::Status steering = grpc::Status::OK;  // of orders
  uint32_t pages_over_budget = 1234;
  folio::v1::GetManagerResponse manager;
  folio::v1::ListPoolsResponse pools;
  folio::v1::ListSequencesResponse sequences;
  folio::v1::GetSequenceResponse sequence;
  folio::v1::ExplainEvictionResponse explanation;
  folio::v1::ListWorkersResponse workers;
  folio::v1::ListTenantsResponse tenants;
  std::vector<folio::v1::ListPagesResponse> pages;
  std::vector<folio::v1::WatchEventsResponse> events;

  const std::string& address() const { return address_; }
  // The orders so far, each as "MessageName text of the message".
  std::vector<std::string> orders() const {
    const std::lock_guard<std::mutex> lock(mu_);
    return orders_;
  }

 private:
  using Context = grpc::ServerContext;

  grpc::Status Take(const google::protobuf::Message& order) {
    const std::lock_guard<std::mutex> lock(mu_);
    orders_.push_back(order.GetDescriptor()->name() + " " + order.ShortDebugString());
    return steering;
  }
  template <typename T>
  static grpc::Status Give(const T& answer, T* response) {
    *response = answer;
    return grpc::Status::OK;
  }

  grpc::Status GetManager(Context*, const folio::v1::GetManagerRequest*,
                          folio::v1::GetManagerResponse* response) override {
    return Give(manager, response);
  }
  grpc::Status ListPools(Context*, const folio::v1::ListPoolsRequest*,
                         folio::v1::ListPoolsResponse* response) override {
    return Give(pools, response);
  }
  grpc::Status ListSequences(Context*, const folio::v1::ListSequencesRequest*,
                             folio::v1::ListSequencesResponse* response) override {
    return Give(sequences, response);
  }
  grpc::Status GetSequence(Context*, const folio::v1::GetSequenceRequest*,
                           folio::v1::GetSequenceResponse* response) override {
    return Give(sequence, response);
  }
  grpc::Status ExplainEviction(Context*, const folio::v1::ExplainEvictionRequest*,
                               folio::v1::ExplainEvictionResponse* response) override {
    return Give(explanation, response);
  }
  grpc::Status ListWorkers(Context*, const folio::v1::ListWorkersRequest*,
                           folio::v1::ListWorkersResponse* response) override {
    return Give(workers, response);
  }
  grpc::Status ListTenants(Context*, const folio::v1::ListTenantsRequest*,
                           folio::v1::ListTenantsResponse* response) override {
    return Give(tenants, response);
  }
  grpc::Status ListPages(Context*, const folio::v1::ListPagesRequest*,
                         grpc::ServerWriter<folio::v1::ListPagesResponse>* writer) override {
    for (const auto& response : pages) writer->Write(response);
    return grpc::Status::OK;
  }
  grpc::Status WatchEvents(Context*, const folio::v1::WatchEventsRequest*,
                           grpc::ServerWriter<folio::v1::WatchEventsResponse>* writer) override {
    for (const auto& response : events) writer->Write(response);
    return grpc::Status::OK;
  }
  grpc::Status CloseSequence(Context*, const folio::v1::CloseSequenceRequest* request,
                             folio::v1::CloseSequenceResponse*) override {
    return Take(*request);
  }
  grpc::Status ParkSequence(Context*, const folio::v1::ParkSequenceRequest* request,
                            folio::v1::ParkSequenceResponse*) override {
    return Take(*request);
  }
  grpc::Status PinSequence(Context*, const folio::v1::PinSequenceRequest* request,
                           folio::v1::PinSequenceResponse*) override {
    return Take(*request);
  }
  grpc::Status LowerBudget(Context*, const folio::v1::LowerBudgetRequest* request,
                           folio::v1::LowerBudgetResponse* response) override {
    response->mutable_cache()->set_budget_tokens(request->budget_tokens());
    response->set_pages_over_budget(pages_over_budget);
    return Take(*request);
  }
  grpc::Status SetQuota(Context*, const folio::v1::SetQuotaRequest* request,
                        folio::v1::SetQuotaResponse*) override {
    return Take(*request);
  }
  grpc::Status Drain(Context*, const folio::v1::DrainRequest* request,
                     folio::v1::DrainResponse* response) override {
    response->set_sequences(3);
    return Take(*request);
  }
  grpc::Status ReleaseQuarantine(Context*, const folio::v1::ReleaseQuarantineRequest* request,
                                 folio::v1::ReleaseQuarantineResponse* response) override {
    response->set_freed_pages(1234);
    return Take(*request);
  }

  const TempDir directory_;
  const std::string address_ = "unix:" + directory_ / "socket";
  std::unique_ptr<grpc::Server> server_;
  mutable std::mutex mu_;
  std::vector<std::string> orders_;
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_CLIENT_SCRIPTED_ADMIN_H_
