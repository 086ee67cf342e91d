// RunLoad sends the requests of a plan when a schedule says so, and measures their answers.
#ifndef FOLIO_SERVICES_CLI_LOAD_RUNNER_H_
#define FOLIO_SERVICES_CLI_LOAD_RUNNER_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "absl/time/time.h"
#include "services/base/steady_time.h"
#include "services/cli/load/goals.h"
#include "services/cli/load/requests.h"
#include "services/cli/load/tally.h"
#include "services/client/streams.h"

namespace folio::load {

struct RunPlan {
  // The clients of a closed loop. With 0 it is an open one.
  size_t clients = 0;
  double rate = 0;  // requests per second of an open loop
  double burstiness = 1;
  // The run asks no more after so many requests or so much time, and waits for the answers.
  uint64_t requests = std::numeric_limits<uint64_t>::max();
  absl::Duration duration = absl::InfiniteDuration();
  uint64_t first_request = 0;  // the number of its first request, see MakeRequest
  size_t workers = 1;          // which are asked in turn
  Goals goals;
  absl::Duration timeout = absl::InfiniteDuration();  // of each request
  absl::Duration resume;                              // as client::CallOptions
  client::Cancellation cancellation;                  // ends the run and all its requests
};

struct RunResult {
  Tally all;
  std::vector<Tally> by_choice;  // of the mix
  uint64_t sent = 0;
  uint64_t running = 0;  // while the run lasts
  uint64_t most_running = 0;
  double seconds = 0;   // from the first request that was due to the last end
  uint64_t tokens = 0;  // all output tokens that have come
  // The time in which all clients of a closed loop decoded at once, and the tokens of that time.
  double full_seconds = 0;
  uint64_t full_tokens = 0;
};

// Returns when all requests have ended. Requests are made and sent on this thread, on which
// `progress` is called now and then. It may also be called with nothing new.
RunResult RunLoad(client::Streams& streams, const RequestPlan& requests, const RunPlan& plan,
                  const std::function<void(const RunResult&)>& progress);

}  // namespace folio::load

#endif  // FOLIO_SERVICES_CLI_LOAD_RUNNER_H_
