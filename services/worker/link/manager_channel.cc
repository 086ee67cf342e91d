#include "services/worker/link/manager_channel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/base/steady_time.h"
#include "services/grpc/grpc_deadline.h"
#include "services/grpc/keepalive.h"
#include "services/runtime/logging.h"

namespace folio::worker {
namespace {

// Another attempt may succeed: there was no manager, it stood still, or all of its threads or its
// memory were in use.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status);
}

absl::Status GaveUp(const absl::Status& last, absl::Duration timeout) {
  const std::string within = absl::StrCat(absl::FormatDuration(timeout), ": ", last.message());
  if (absl::IsResourceExhausted(last)) {
    return absl::ResourceExhaustedError(absl::StrCat("the manager had no room within ", within));
  }
  return absl::UnavailableError(absl::StrCat("the manager could not be reached within ", within));
}

bool IsReady(grpc::Channel& channel) {
  return channel.GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
}

// Before its server has threads, a process of gRPC 1.51 connects only while some thread waits for
// the channel, and for a moment every 5 seconds. So this waits for it and does not just sleep.
void WaitFor(grpc::Channel& channel, absl::Duration most) {
  const grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
  if (state == GRPC_CHANNEL_READY) {
    absl::SleepFor(most);
  } else {
    channel.WaitForStateChange(state, GrpcDeadline(SteadyNow() + most));
  }
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeManagerChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // plans grow with layers and context
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Despite its name it is the time that one attempt to connect may take. A busy machine needs
  // some.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A manager that is stopped answers neither these nor the session's requests.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

absl::Status RetryWhileUnavailable(grpc::Channel& channel, absl::Duration timeout,
                                   const std::function<bool()>& stop,
                                   absl::FunctionRef<absl::Status()> attempt) {
  const SteadyTime deadline = SteadyNow() + timeout;
  absl::Duration pause = absl::Milliseconds(100);
  for (;;) {
    if (stop()) return absl::CancelledError("asked to stop");
    absl::Status status = attempt();
    if (!MayPass(status)) return status;
    if (SteadyNow() + pause >= deadline) return GaveUp(status, timeout);
    log::Warning("the manager does not take calls, trying again",
                 {{"error", status}, {"pause", pause}});
    // The pause is cut into short pieces so that `stop`, which may return true only once, is asked
    // often.
    const bool was_ready = IsReady(channel);
    for (const SteadyTime next = SteadyNow() + pause; SteadyNow() < next;) {
      if (stop()) return absl::CancelledError("asked to stop");
      WaitFor(channel, absl::Milliseconds(50));
      if (!was_ready && IsReady(channel)) break;
    }
    pause = std::min(2 * pause, absl::Seconds(3));
  }
}

}  // namespace folio::worker
