// ConnectOptions says how a client connects, and TlsOptions how it encrypts what it says.
// CallOptions gives a call a deadline and a way to stop it.
#ifndef FOLIO_SERVICES_CLIENT_CALL_H_
#define FOLIO_SERVICES_CLIENT_CALL_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "services/base/steady_time.h"

namespace grpc {
class ClientContext;
}

namespace folio::client {

// The default of ConnectOptions::keepalive.
inline constexpr absl::Duration kKeepalive = absl::Seconds(10);

// Paths of PEM files. They are read again within seconds after they have changed, for connections
// that begin then. While a certificate and a key do not fit together, those fail.
struct TlsOptions {
  // Authorities, one of which has signed the server's certificate. If empty, those that gRPC finds
  // on the system.
  std::string ca_file = {};
  // The client's own certificate and its key, for servers that ask for one. Both or neither.
  std::string cert_file = {};
  std::string key_file = {};
  // The name or IP address that the server's certificate must have. If empty, it is the host of the
  // address.
  std::string server_name = {};
};

struct ConnectOptions {
  // Connect waits this long for the first answer.
  absl::Duration timeout = absl::Seconds(5);
  // True if the server may still be starting. Connect then tries again until `timeout`. Otherwise
  // an address that refuses the connection is an error at once.
  bool wait_for_server = false;
  // For a worker's client, the addresses of other workers of the same manager. When a generation
  // loses its worker, the client asks these and the first address in turn to continue it.
  std::vector<std::string> standby = {};
  // While a call runs, the client asks this often whether the server is still there. The server has
  // half of this time to answer. If it does not, because its process is stopped or its machine is
  // gone, the call ends with UNAVAILABLE, and a generation is resumed. 0 never asks. Otherwise it
  // is at least 5 s, which is what servers allow; those before version 0.2 cut a call that gets
  // nothing for 4 times this long.
  absl::Duration keepalive = kKeepalive;
  // False if the caller does not need to know yet whether a server answers. Connect then sends
  // nothing, and calls fail with UNAVAILABLE as long as none does.
  bool check = true;
  // Encrypts connections by TCP. Without it they are plain, and Unix sockets always are. Connect
  // fails with INVALID_ARGUMENT if a file cannot be used.
  std::optional<TlsOptions> tls = std::nullopt;
  // The token that tells a server with --access who calls, or a file with it alone, which is read
  // again within a second after it has changed. One of them, or neither. It is sent over TLS, Unix
  // sockets and loopback. Connect fails with INVALID_ARGUMENT if it would go over a network in
  // plain, or cannot be used.
  std::string token = {};
  std::string token_file = {};
};

// Stops calls from another thread. Any number of calls may have the same Cancellation, one after
// another or in parallel. Cancel ends the running ones with CANCELLED, and later ones before they
// begin. Thread-safe. Copies are handles to the same state, so that the thread that cancels and the
// thread that calls may end in any order.
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

// The default of CallOptions::resume. It is longer than --lease_ttl and --kill_fenced_after of a
// manager take together by default, 20 s.
inline constexpr absl::Duration kResume = absl::Seconds(30);

struct CallOptions {
  // The server stops working on the call at the deadline, for example SteadyNow() +
  // absl::Seconds(30). The status is then DEADLINE_EXCEEDED.
  SteadyTime deadline = SteadyTime::InfiniteFuture();
  Cancellation cancellation;
  // When a generation loses its worker, the client looks this long for another one that continues
  // the sequence (one of ConnectOptions::standby, or one that was started at the same address). The
  // tokens continue where they stopped. If no event had come, the client sends the request again
  // instead. A worker that hangs is proven gone only after the manager's --lease_ttl and
  // --kill_fenced_after, so give some seconds more than both. With 0 the loss ends the generation.
  absl::Duration resume = kResume;
  // When the sequence itself is gone, for example with a manager that kept no record, the client
  // sends the request again with the tokens that have come, within the time of `resume`. The worker
  // computes them again, and the tokens continue where they stopped (docs/failover.md). With false
  // the client keeps no copy of the request, and the loss ends the generation.
  bool replay = true;
  // Sent with the call, for example {"x-request-id", "42"}, which a worker writes into its log.
  // Names are in lower case, and values printable ASCII.
  std::vector<std::pair<std::string, std::string>> metadata = {};
};

// Used by the clients themselves. While it lives, the cancellation ends the call of `context`,
// which has already started. If it was cancelled before, the call ends at once. `then` is called
// after that, under a lock of the cancellation, so it must not destroy this.
class RunningCall {
 public:
  RunningCall(const Cancellation& cancellation, grpc::ClientContext* context,
              const std::function<void()>& then = nullptr);
  ~RunningCall();
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

 private:
  std::shared_ptr<Cancellation::State> state_;
  grpc::ClientContext* context_;  // borrowed
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_CALL_H_
