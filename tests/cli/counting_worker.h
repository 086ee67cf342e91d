// CountingWorker is a worker in the test's process that answers each request with as many tokens as
// it asks for, and remembers the requests.
#ifndef FOLIO_TESTS_CLI_COUNTING_WORKER_H_
#define FOLIO_TESTS_CLI_COUNTING_WORKER_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "folio/v1/inference.grpc.pb.h"
#include "tests/common/temp_dir.h"

namespace folio::testing {

class CountingWorker : private folio::v1::Inference::Service {
 public:
  static constexpr uint32_t kVocab = 640;   // so that ranges of tokens are 11 wide
  static constexpr uint32_t kSpecial = 17;  // the first tokens
  static constexpr uint32_t kContext = 1000;
  static constexpr uint32_t kEos = 600;

  CountingWorker() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~CountingWorker() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  // Set these before calls are made. The status of the call of each number, from 0 on. A failure
  // comes after the first token.
  std::function<grpc::Status(int)> status = [](int) { return grpc::Status::OK; };
  std::chrono::milliseconds pause{0};  // before each token
  int tokens_per_message = 1;
  bool queued = false;  // tell a place in the line first
  bool hang = false;    // after the first token, until the call is cancelled
  std::string fingerprint = "one";

  std::atomic<int> started = 0;
  std::atomic<int> running = 0;
  std::atomic<int> most_running = 0;

  const std::string& address() const { return address_; }
  std::vector<folio::v1::GenerateRequest> requests() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return requests_;
  }

 private:
  grpc::Status GetModel(grpc::ServerContext*, const folio::v1::GetModelRequest*,
                        folio::v1::GetModelResponse* response) override {
    response->mutable_layout()->set_model("counting");
    response->mutable_layout()->set_fingerprint(fingerprint);
    response->set_vocab_size(kVocab);
    response->set_context_length(kContext);
    response->add_eos_tokens(kEos);
    response->set_device("the device");
    return grpc::Status::OK;
  }

  grpc::Status Detokenize(grpc::ServerContext*, const folio::v1::DetokenizeRequest* request,
                          folio::v1::DetokenizeResponse* response) override {
    std::string text;
    for (const uint32_t id : request->ids()) {
      if (id >= kSpecial || !request->skip_special()) text += std::to_string(id) + " ";
    }
    response->set_text(text);
    return grpc::Status::OK;
  }

  grpc::Status Generate(grpc::ServerContext* context, const folio::v1::GenerateRequest* request,
                        grpc::ServerWriter<folio::v1::GenerateResponse>* writer) override {
    int number = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      number = static_cast<int>(requests_.size());
      requests_.push_back(*request);
      most_running = std::max(most_running.load(), ++running);
    }
    ++started;
    const grpc::Status end = Answer(context, *request, number, writer);
    --running;
    return end;
  }

  grpc::Status Answer(grpc::ServerContext* context, const folio::v1::GenerateRequest& request,
                      int number, grpc::ServerWriter<folio::v1::GenerateResponse>* writer) {
    folio::v1::GenerateResponse event;
    if (queued) event.mutable_prefill()->set_queue_position(3);
    if (queued) writer->Write(event);
    event.mutable_started()->set_sequence_id(static_cast<uint64_t>(number));
    event.mutable_started()->set_resume_token("secret");
    writer->Write(event);
    for (uint32_t token = 0; token < request.max_tokens();) {
      std::this_thread::sleep_for(pause);
      event.mutable_chunk()->Clear();
      for (int i = 0; i < tokens_per_message && token < request.max_tokens(); ++i, ++token) {
        event.mutable_chunk()->add_tokens(token);
      }
      writer->Write(event);
      while (hang && !context->IsCancelled()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (grpc::Status failure = status(number); !failure.ok()) return failure;
    }
    event.mutable_finished()->mutable_usage()->set_generated_tokens(request.max_tokens());
    writer->Write(event);
    return grpc::Status::OK;
  }

  const TempDir directory_;
  const std::string address_ = "unix:" + directory_ / "socket";
  std::unique_ptr<grpc::Server> server_;
  mutable std::mutex mutex_;
  std::vector<folio::v1::GenerateRequest> requests_;
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_CLI_COUNTING_WORKER_H_
