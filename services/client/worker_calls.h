// WorkerCalls makes the short calls of a worker without a thread that waits for the answers, where
// a Client (client.h) needs one. It is for programs that pass on the calls of many users.
#ifndef FOLIO_SERVICES_CLIENT_WORKER_CALLS_H_
#define FOLIO_SERVICES_CLIENT_WORKER_CALLS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "folio/v1/inference.pb.h"
#include "services/client/call.h"

namespace folio::client {

// Thread-safe. The functions that take answers are called once each, on threads of gRPC, and must
// not block. Statuses are those of Client.
class WorkerCalls {
 public:
  template <typename Answer>
  using Taker = std::function<void(absl::StatusOr<Answer>)>;

  // Errors as of Client::Connect.
  static absl::StatusOr<std::unique_ptr<WorkerCalls>> Connect(const std::string& address,
                                                              const ConnectOptions& options = {});
  // Waits until all answers are taken. Cancel calls before that may last.
  ~WorkerCalls();
  WorkerCalls(const WorkerCalls&) = delete;
  WorkerCalls& operator=(const WorkerCalls&) = delete;

  void Tokenize(folio::v1::TokenizeRequest request, const CallOptions& options,
                Taker<folio::v1::TokenizeResponse> done);
  void Detokenize(folio::v1::DetokenizeRequest request, const CallOptions& options,
                  Taker<folio::v1::DetokenizeResponse> done);
  void GetModel(const CallOptions& options, Taker<folio::v1::GetModelResponse> done);
  // False while the worker runs but accepts no requests.
  void IsServing(const CallOptions& options, Taker<bool> done);

 private:
  class State;
  explicit WorkerCalls(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_WORKER_CALLS_H_
