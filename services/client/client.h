// Client is the C++ client of a worker. Requests and results are the protocol's own messages, and
// proto/folio/v1/inference.proto is their manual. services/client/inputs.h has short ways to write
// common requests. This header includes no gRPC header.
//
//   auto client = folio::client::Client::Connect("unix:/run/folio/worker.sock");
//   if (!client.ok()) ...
//   folio::v1::GenerateRequest request;
//   *request.mutable_input() = folio::client::Ask("Why is the sky blue?");
//   auto generation = (*client)->Start(request);
//   while (auto event = generation.Next()) std::cout << event->chunk().text();
//   if (!generation.status().ok()) ...
//
// Errors are statuses with the server's code and words:
//   UNAVAILABLE          nothing answers at the address, or the server ended (and no worker
//                        continued the generation, see CallOptions::resume and replay)
//   INVALID_ARGUMENT     the request (the message names the field)
//   RESOURCE_EXHAUSTED   the pool is full (the message says what would free room)
//   FAILED_PRECONDITION  e.g. a chat where the model has no chat template
//   DEADLINE_EXCEEDED, CANCELLED
//
// A call has no deadline by default, because every wait ends without one: --queue_timeout of the
// worker bounds the wait for room, its --step_timeout a step that hangs, and
// ConnectOptions::keepalive the wait for a server that does not answer.
#ifndef FOLIO_SERVICES_CLIENT_CLIENT_H_
#define FOLIO_SERVICES_CLIENT_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "folio/v1/inference.pb.h"
#include "services/client/call.h"
#include "services/client/inputs.h"

namespace folio::client {

// A generation in progress. One thread may call Next and status, and any thread may call Cancel.
// Destroying it before its end cancels it, and the server then frees its pages within a step.
//
// If its worker is lost, another one resumes it, and the events continue as if nothing had
// happened. If no event had come, the other one gets the request itself. If the sequence is gone,
// the request is replayed (CallOptions::replay): `started` stays that of the first time, and
// `finished` says how often. There are two exceptions. Log-probabilities that were lost with the
// worker are NaN, and some figures of Finished count from the resumption. A generation that reports
// evictions is neither resumed nor replayed, because some reports might be lost or come twice.
class Generation {
 public:
  Generation(Generation&& other) noexcept;
  Generation& operator=(Generation&& other) noexcept;
  ~Generation();

  // Waits for the next event. The first is `started` and the last is `finished`. While the request
  // waits for room, `prefill` events with a queue_position may come before them. Returns nothing
  // after the last.
  std::optional<folio::v1::GenerateResponse> Next();
  // Valid after Next has returned nothing. OK if the generation is complete, otherwise why it
  // ended.
  absl::Status status() const;
  void Cancel();

 private:
  friend class Client;
  class State;
  explicit Generation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A whole generation, gathered.
struct Completion {
  std::string text;
  std::vector<uint32_t> tokens;
  std::vector<folio::v1::TokenLogprob> logprobs;    // if the request asked for them
  std::vector<folio::v1::EvictionEvent> evictions;  // likewise
  folio::v1::Started started;
  folio::v1::Finished finished;
};

// Thread-safe, and calls run in parallel. A broken connection is made again. Generations may
// outlive the client.
class Client {
 public:
  // `address` is "unix:/path" or "host:port". UNAVAILABLE names it and says why nothing answers.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(absl::string_view address,
                                                         const ConnectOptions& options = {});
  ~Client();

  // Begins a generation whose events are pulled.
  Generation Start(const folio::v1::GenerateRequest& request, const CallOptions& options = {});
  // Runs a generation and calls `on_event` with each event, on this thread. If it returns false,
  // the generation is cancelled.
  absl::Status Generate(const folio::v1::GenerateRequest& request,
                        absl::FunctionRef<bool(const folio::v1::GenerateResponse&)> on_event,
                        const CallOptions& options = {});
  // Runs a generation to its end.
  absl::StatusOr<Completion> Complete(const folio::v1::GenerateRequest& request,
                                      const CallOptions& options = {});

  absl::StatusOr<folio::v1::ScoreResponse> Score(const folio::v1::ScoreRequest& request,
                                                 const CallOptions& options = {});
  absl::StatusOr<folio::v1::TokenizeResponse> Tokenize(const folio::v1::Input& input,
                                                       const CallOptions& options = {});
  absl::StatusOr<std::string> Detokenize(absl::Span<const uint32_t> ids, bool skip_special = false,
                                         const CallOptions& options = {});
  absl::StatusOr<folio::v1::GetModelResponse> GetModel(const CallOptions& options = {});
  // False while the worker runs but accepts no requests (starting, draining, without its manager).
  absl::StatusOr<bool> IsServing(const CallOptions& options = {});

 private:
  friend class Generation;
  class State;
  explicit Client(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_CLIENT_H_
