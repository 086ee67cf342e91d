// The C++ client of a worker. Requests and results are the protocol's own messages
// (proto/folio/v1/inference.proto is their manual; services/client/inputs.h has short ways to write
// the common ones); gRPC itself stays behind this header.
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
//   UNAVAILABLE          nothing answers at the address, or the server went away (and, of a
//                        generation, no worker went on with it; see CallOptions::resume)
//   INVALID_ARGUMENT     the request (the message names the field)
//   RESOURCE_EXHAUSTED   the pool is full (the message says what would free room)
//   FAILED_PRECONDITION  e.g. a chat where the model has no chat template
//   DEADLINE_EXCEEDED, CANCELLED
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

// A generation in progress. Next and status are for one thread; Cancel is for any. Destroying it
// before its end cancels it; the server then takes its pages back within a step.
//
// When its worker is lost it is resumed at another one, and the events go on as if nothing had
// happened, but for log-probabilities that went with the worker (NaN), and for figures of Finished
// that count from there. One that reports evictions is not resumed, since some might be missed.
class Generation {
 public:
  Generation(Generation&& other) noexcept;
  Generation& operator=(Generation&& other) noexcept;
  ~Generation();

  // Waits for the next event: `started` first, `finished` last. Nothing when there is no other.
  std::optional<folio::v1::GenerateResponse> Next();
  // Once Next has given nothing: OK if the generation came to its end, or why it did not.
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
  std::vector<folio::v1::TokenLogprob> logprobs;    // where the request asked for them
  std::vector<folio::v1::EvictionEvent> evictions;  // likewise
  folio::v1::Started started;
  folio::v1::Finished finished;
};

// Thread-safe; calls run side by side. The connection is made again when it breaks. Generations
// may outlive the client.
class Client {
 public:
  // `address` is "unix:/path" or "host:port". UNAVAILABLE names it and says why nothing answers.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(absl::string_view address,
                                                         const ConnectOptions& options = {});
  ~Client();

  // Begins a generation whose events are pulled.
  Generation Start(const folio::v1::GenerateRequest& request, const CallOptions& options = {});
  // Runs a generation and hands each event to `on_event`, on this thread; `false` from it cancels.
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
  // False while the worker is up but takes no requests (starting, draining, without its manager).
  absl::StatusOr<bool> IsServing(const CallOptions& options = {});

 private:
  friend class Generation;
  class State;
  explicit Client(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_CLIENT_H_
