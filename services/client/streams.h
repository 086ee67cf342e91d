// Streams runs many generations at once on the few threads of gRPC, where a Generation (client.h)
// needs a thread of the caller. It is for programs that put a server under load or pass on the
// answers of many users. Events are given to a listener as they arrive.
#ifndef FOLIO_SERVICES_CLIENT_STREAMS_H_
#define FOLIO_SERVICES_CLIENT_STREAMS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "folio/v1/inference.pb.h"
#include "services/base/steady_time.h"
#include "services/client/call.h"
#include "services/client/read_gate.h"

namespace folio::client {

// Its methods are called on threads of gRPC, one at a time for a generation, and must not block.
class StreamListener {
 public:
  virtual ~StreamListener() = default;
  // As Generation::Next gives them. `arrival` is when the message was there, before it was looked
  // at.
  virtual void OnEvent(const folio::v1::GenerateResponse& event, SteadyTime arrival) = 0;
  // A worker was lost, and another one continues the generation, has begun it or computes it again.
  // `lost` is the index of the address of the one that was lost.
  virtual void OnResumed(size_t lost) {}
  // The sequence was gone, and a worker computes it again.
  virtual void OnReplayed() {}
  // As Generation::status. It is the last call, and may destroy the listener.
  virtual void OnEnd(const absl::Status& status) = 0;
};

struct StreamsOptions {
  // Its `standby` is not used, because the addresses of Connect stand by for each other.
  ConnectOptions connect = {};
  // Connections to each worker, among which generations are dealt in turn. A connection is read by
  // one thread at a time.
  size_t connections = 8;
};

// Thread-safe.
class Streams {
 public:
  // The addresses are those of workers of one manager. Errors as of Client::Connect.
  static absl::StatusOr<std::unique_ptr<Streams>> Connect(const std::vector<std::string>& addresses,
                                                          const StreamsOptions& options = {});
  // Waits until all generations have ended. Cancel them before if they are long.
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // Begins a generation at the worker of that index. `listener` must live until its OnEnd, and
  // hears of every failure, also of those before anything was sent. When the worker is lost, the
  // next address is asked in turn, see CallOptions::resume. A listener that cannot take more events
  // closes the gate.
  void Start(const folio::v1::GenerateRequest& request, size_t worker, StreamListener* listener,
             const CallOptions& options = {}, const ReadGate& gate = {});

 private:
  class Stream;
  class State;
  explicit Streams(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_STREAMS_H_
