#include "services/worker/link/manager_channel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/runtime/logging.h"

namespace folio::worker {

std::shared_ptr<grpc::Channel> MakeManagerChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // plans grow with layers and context
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

absl::Status RetryWhileUnavailable(absl::Duration timeout, const std::function<bool()>& stop,
                                   absl::FunctionRef<absl::Status()> attempt) {
  const absl::Time deadline = absl::Now() + timeout;
  absl::Duration pause = absl::Milliseconds(100);
  for (;;) {
    if (stop()) return absl::CancelledError("asked to stop");
    absl::Status status = attempt();
    if (!absl::IsUnavailable(status)) return status;
    if (absl::Now() + pause >= deadline) {
      return absl::UnavailableError(absl::StrCat("the manager could not be reached within ",
                                                 absl::FormatDuration(timeout), ": ",
                                                 status.message()));
    }
    log::Warning("the manager cannot be reached, trying again",
                 {{"error", status.message()}, {"pause", pause}});
    // The pause is cut into short pieces so that `stop`, which may return true only once, is asked
    // often.
    for (const absl::Time next = absl::Now() + pause; absl::Now() < next;) {
      if (stop()) return absl::CancelledError("asked to stop");
      absl::SleepFor(absl::Milliseconds(50));
    }
    pause = std::min(2 * pause, absl::Seconds(3));
  }
}

}  // namespace folio::worker
