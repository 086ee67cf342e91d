// Outcome is what one request of a load run was and how it went. Call measures it while its answer
// arrives.
#ifndef FOLIO_SERVICES_CLI_LOAD_OUTCOME_H_
#define FOLIO_SERVICES_CLI_LOAD_OUTCOME_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "folio/v1/inference.pb.h"
#include "services/base/steady_time.h"
#include "services/cli/load/full_load.h"
#include "services/client/streams.h"

namespace folio::load {

// Times are seconds. A message may bring several tokens, because a step may give several and
// because a slow reader gets them together. The first time counts to the first message with a
// token, and a gap lies between two such messages, whatever the number of their tokens. The time
// per output token counts all tokens after the first. `vllm bench serve` counts in the same way.
struct Outcome {
  size_t choice = 0;  // of the mix
  absl::Status status;
  SteadyTime asked, ended;
  double late = 0;  // how long after it was due the request was sent
  uint32_t prompt_tokens = 0;
  uint32_t output_tokens = 0;  // that have come, also of an answer that failed
  bool waited = false;         // it was told a place in the line
  uint32_t resumed = 0;        // how often another worker continued it
  std::optional<double> first;
  std::vector<float> gaps;
  std::optional<double> per_token;  // if more than one token has come

  double total() const { return absl::ToDoubleSeconds(ended - asked); }
};

// The listener of one stream. Other threads may use `outcome` once `done` was called.
class Call : public client::StreamListener {
 public:
  // `full` is shared by all calls of a run. `done` is the last that the stream calls, and may
  // destroy this.
  Call(FullLoad* full, std::function<void(Call*)> done) : full_(full), done_(std::move(done)) {}

  Outcome outcome;

  void OnEvent(const folio::v1::GenerateResponse& event, SteadyTime arrival) override;
  void OnResumed(size_t) override { ++outcome.resumed; }
  void OnEnd(const absl::Status& status) override;

 private:
  FullLoad* const full_;
  std::function<void(Call*)> done_;
  SteadyTime first_, last_;  // messages with tokens
};

}  // namespace folio::load

#endif  // FOLIO_SERVICES_CLI_LOAD_OUTCOME_H_
