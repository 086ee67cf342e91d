// ScriptedServer is a gRPC server in the test's process that answers for both services as a script
// says. It is for paths that a real worker or manager takes only when something is wrong.
#ifndef FOLIO_TESTS_CLIENT_SCRIPTED_SERVER_H_
#define FOLIO_TESTS_CLIENT_SCRIPTED_SERVER_H_

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "folio/v1/admin.grpc.pb.h"
#include "folio/v1/inference.grpc.pb.h"
#include "tests/client/answer_events.h"
#include "tests/common/temp_dir.h"

namespace folio::testing {

// The answers of the services. Set them before calls are made, and read the counters afterwards.
struct Script {
  grpc::Status status = grpc::Status::OK;  // of every call, once its events are sent
  std::vector<folio::v1::GenerateResponse> events;
  grpc::Status resumed = grpc::Status::OK;  // if it is an error, of calls that resume a sequence
  bool hang = false;                        // instead of ending, wait until the call is cancelled
  folio::v1::ScoreResponse score;
  folio::v1::TokenizeResponse tokens;
  std::string text;
  folio::v1::GetModelResponse model;
  folio::v1::ListPoolsResponse pools;
  folio::v1::ListSequencesResponse sequences;
  folio::v1::GetSequenceResponse sequence;
  folio::v1::ListWorkersResponse workers;
  std::vector<folio::v1::WatchEventsResponse> watched;

  std::atomic<int> started = 0;
  std::atomic<int> cancelled = 0;
};

class ScriptedServer : private folio::v1::Inference::Service, private folio::v1::Admin::Service {
 public:
  // Listens on a Unix socket in a directory of its own.
  ScriptedServer() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(static_cast<folio::v1::Inference::Service*>(this));
    builder.RegisterService(static_cast<folio::v1::Admin::Service*>(this));
    server_ = builder.BuildAndStart();
    server_->GetHealthCheckService()->SetServingStatus(folio::v1::Admin::service_full_name(), true);
  }
  ~ScriptedServer() override { Stop(); }

  Script script;

  const std::string& address() const { return address_; }
  void SetServing(bool serving) { server_->GetHealthCheckService()->SetServingStatus(serving); }
  void Stop() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_ = nullptr;
  }

  // The last requests, as they arrived.
  folio::v1::GenerateRequest generate_request() const { return Locked(generate_requests_).back(); }
  folio::v1::ScoreRequest score_request() const { return Locked(score_request_); }
  folio::v1::WatchEventsRequest watch_request() const { return Locked(watch_request_); }
  auto generate_requests() const { return Locked(generate_requests_); }

 private:
  template <typename T>
  T Locked(const T& value) const {
    const std::lock_guard<std::mutex> lock(mu_);
    return value;
  }

  grpc::Status End(grpc::ServerContext* context) {
    if (!script.hang) return script.status;
    while (!context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++script.cancelled;
    return grpc::Status::CANCELLED;
  }

  template <typename T>
  grpc::Status Answer(grpc::ServerContext* context, const T& answer, T* response) {
    ++script.started;
    *response = answer;
    return End(context);
  }

  grpc::Status Generate(grpc::ServerContext* context, const folio::v1::GenerateRequest* request,
                        grpc::ServerWriter<folio::v1::GenerateResponse>* writer) override {
    {
      const std::lock_guard<std::mutex> lock(mu_);
      generate_requests_.push_back(*request);
    }
    ++script.started;
    if (request->has_resume() && !script.resumed.ok()) return script.resumed;
    for (const auto& event : script.events) writer->Write(event);
    return End(context);
  }
  grpc::Status Score(grpc::ServerContext* context, const folio::v1::ScoreRequest* request,
                     folio::v1::ScoreResponse* response) override {
    {
      const std::lock_guard<std::mutex> lock(mu_);
      score_request_ = *request;
    }
    return Answer(context, script.score, response);
  }
  grpc::Status Tokenize(grpc::ServerContext* context, const folio::v1::TokenizeRequest*,
                        folio::v1::TokenizeResponse* response) override {
    return Answer(context, script.tokens, response);
  }
  grpc::Status Detokenize(grpc::ServerContext* context, const folio::v1::DetokenizeRequest*,
                          folio::v1::DetokenizeResponse* response) override {
    response->set_text(script.text);
    return End(context);
  }
  grpc::Status GetModel(grpc::ServerContext* context, const folio::v1::GetModelRequest*,
                        folio::v1::GetModelResponse* response) override {
    return Answer(context, script.model, response);
  }
  grpc::Status ListPools(grpc::ServerContext* context, const folio::v1::ListPoolsRequest*,
                         folio::v1::ListPoolsResponse* response) override {
    return Answer(context, script.pools, response);
  }
  grpc::Status ListSequences(grpc::ServerContext* context, const folio::v1::ListSequencesRequest*,
                             folio::v1::ListSequencesResponse* response) override {
    return Answer(context, script.sequences, response);
  }
  grpc::Status GetSequence(grpc::ServerContext* context, const folio::v1::GetSequenceRequest*,
                           folio::v1::GetSequenceResponse* response) override {
    return Answer(context, script.sequence, response);
  }
  grpc::Status ListWorkers(grpc::ServerContext* context, const folio::v1::ListWorkersRequest*,
                           folio::v1::ListWorkersResponse* response) override {
    return Answer(context, script.workers, response);
  }
  grpc::Status WatchEvents(grpc::ServerContext* context,
                           const folio::v1::WatchEventsRequest* request,
                           grpc::ServerWriter<folio::v1::WatchEventsResponse>* writer) override {
    {
      const std::lock_guard<std::mutex> lock(mu_);
      watch_request_ = *request;
    }
    for (const auto& response : script.watched) writer->Write(response);
    ++script.started;
    return End(context);
  }

  const TempDir directory_;
  const std::string address_ = "unix:" + directory_ / "socket";
  std::unique_ptr<grpc::Server> server_;
  mutable std::mutex mu_;
  std::vector<folio::v1::GenerateRequest> generate_requests_;
  folio::v1::ScoreRequest score_request_;
  folio::v1::WatchEventsRequest watch_request_;
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_CLIENT_SCRIPTED_SERVER_H_
