// How a client connects, and what each call may be given: a deadline and a way to stop it.
#ifndef FOLIO_SERVICES_CLIENT_CALL_H_
#define FOLIO_SERVICES_CLIENT_CALL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace grpc {
class ClientContext;
}

namespace folio::client {

struct ConnectOptions {
  // How long Connect waits for the first answer.
  absl::Duration timeout = absl::Seconds(5);
  // The server may still be starting: keep trying until `timeout`. Otherwise an address that
  // refuses the connection is an error at once.
  bool wait_for_server = false;
  // Of a worker: other workers of the same manager. When the one that a generation runs on is lost,
  // these are asked to go on with it, in turn with the first address.
  std::vector<std::string> standby = {};
};

// Stops calls from another thread: give one Cancellation to any number of calls, one after another
// or together; Cancel ends those that run with CANCELLED, and those started later before they
// begin. Thread-safe. Copies are handles to the same thing, so that the one who cancels and the one
// who calls need not agree on who lives longer.
class Cancellation {
 public:
  Cancellation();
  void Cancel() const;
  bool cancelled() const;

 private:
  friend class RunningCall;
  struct State;
  std::shared_ptr<State> state_;
};

// The default of CallOptions::resume.
inline constexpr absl::Duration kResume = absl::Seconds(10);

struct CallOptions {
  // The server stops working on the call at the deadline; the status is DEADLINE_EXCEEDED.
  absl::Time deadline = absl::InfiniteFuture();
  Cancellation cancellation;
  // Of a generation: for how long after the loss of its worker to look for one that goes on with
  // the sequence (another one of ConnectOptions::standby, or one that was started at the same
  // address); the tokens go on where they stopped. 0: its loss ends the generation.
  absl::Duration resume = kResume;
};

// For the clients' own use: while it lives, the call of `context` (already started) is ended by
// the cancellation, at once if that has happened already.
class RunningCall {
 public:
  RunningCall(const Cancellation& cancellation, grpc::ClientContext* context);
  ~RunningCall();
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

 private:
  std::shared_ptr<Cancellation::State> state_;
  grpc::ClientContext* context_;  // borrowed
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_CALL_H_
