// These functions open the gRPC channel to the manager, and repeat calls while it does not answer.
#ifndef FOLIO_SERVICES_WORKER_LINK_MANAGER_CHANNEL_H_
#define FOLIO_SERVICES_WORKER_LINK_MANAGER_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace folio::worker {

// `address` has gRPC's form, unix:/path or host:port.
std::shared_ptr<grpc::Channel> MakeManagerChannel(const std::string& address);

// Calls `attempt` until it returns anything except UNAVAILABLE, DEADLINE_EXCEEDED and
// RESOURCE_EXHAUSTED, with a growing pause and a log line between the calls. The pause ends early
// when `channel`, which the calls use, has connected. A manager whose server threads are all taken
// refuses with the last one. Fails with UNAVAILABLE or RESOURCE_EXHAUSTED and the last reason after
// `timeout`, and with CANCELLED when `stop`, which is asked before each call, returns true.
absl::Status RetryWhileUnavailable(grpc::Channel& channel, absl::Duration timeout,
                                   const std::function<bool()>& stop,
                                   absl::FunctionRef<absl::Status()> attempt);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_LINK_MANAGER_CHANNEL_H_
