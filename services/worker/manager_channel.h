// The way to the manager: a channel, and patience while nobody answers.
#ifndef FOLIO_SERVICES_WORKER_MANAGER_CHANNEL_H_
#define FOLIO_SERVICES_WORKER_MANAGER_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace folio::worker {

// `address`: gRPC's, unix:/path or host:port.
std::shared_ptr<grpc::Channel> MakeManagerChannel(const std::string& address);

// Calls `attempt` again and again, with a growing pause and a log line, while it says UNAVAILABLE;
// anything else ends it, and so does `timeout` (UNAVAILABLE, with the last reason) or `stop`
// (CANCELLED), which is asked before each try.
absl::Status RetryWhileUnavailable(absl::Duration timeout, const std::function<bool()>& stop,
                                   absl::FunctionRef<absl::Status()> attempt);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_MANAGER_CHANNEL_H_
