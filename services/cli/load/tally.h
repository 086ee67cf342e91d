// Tally is the sum of the requests of a run that have ended.
#ifndef FOLIO_SERVICES_CLI_LOAD_TALLY_H_
#define FOLIO_SERVICES_CLI_LOAD_TALLY_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "services/cli/load/goals.h"
#include "services/cli/load/histogram.h"
#include "services/cli/load/outcome.h"

namespace folio::load {

// Not thread-safe.
struct Tally {
  // Requests that ended with a code that is not OK, and the message of the first one.
  struct Failure {
    uint64_t count = 0;
    std::string first;
  };

  uint64_t answered = 0;
  std::map<absl::StatusCode, Failure> failures;
  uint64_t cut = 0;  // ended by the client itself, and counted nowhere else
  uint64_t good = 0;
  uint64_t waited = 0;
  uint64_t resumed = 0;
  uint64_t prompt_tokens = 0;  // these are of answers alone
  uint64_t output_tokens = 0;
  Histogram first, gaps, per_token, total;
  Histogram late;  // of all requests

  // Adds a request. If the run was interrupted (`cancelled`), CANCELLED does not count as a
  // failure.
  void Add(const Outcome& outcome, const Goals& goals, bool cancelled);

  uint64_t failed() const;
  uint64_t counted() const { return answered + failed(); }
};

}  // namespace folio::load

#endif  // FOLIO_SERVICES_CLI_LOAD_TALLY_H_
