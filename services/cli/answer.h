// StreamAnswer runs a generation and shows it as it comes, with progress on the error stream and
// text on the output. The other functions show its numbers afterwards.
#ifndef FOLIO_SERVICES_CLI_ANSWER_H_
#define FOLIO_SERVICES_CLI_ANSWER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "folio/v1/inference.pb.h"
#include "services/cli/output.h"
#include "services/cli/page_map.h"
#include "services/cli/terminal.h"
#include "services/client/client.h"

namespace folio::cli {

// Gathers the events of one generation. Not thread-safe.
struct Answer {
  std::string text;
  std::vector<folio::v1::TokenLogprob> logprobs;
  std::vector<folio::v1::EvictionEvent> evictions;
  folio::v1::Started started;
  folio::v1::Finished finished;

  void Add(const folio::v1::GenerateResponse& event);
};

// Runs `request` and shows prefill progress if err is a terminal, and text as it comes (in a format
// for programs, each event). An interrupt cancels it. `answer` has all events that came, also
// after a failure. INVALID_ARGUMENT: the query does not fit an event, which ends the generation.
absl::Status StreamAnswer(client::Client& client, const folio::v1::GenerateRequest& request,
                          const client::CallOptions& options, const Output& output,
                          Terminal& terminal, Answer* answer);

// The generation's costs as a table of facts.
std::string RenderStats(const Answer& answer, const Terminal& terminal);

// Positions that each layer holds at the end.
absl::StatusOr<std::vector<Ranges>> KeptAtEnd(const Answer& answer,
                                              const folio::v1::ModelLayout& layout);

// A line per token. `pieces` are the tokens' bytes in the same order.
std::string RenderLogprobs(absl::Span<const folio::v1::TokenLogprob> tokens,
                           absl::Span<const std::string> pieces, const Terminal& terminal);

// Decoded tokens per second after the first one, or 0 if there was only one.
double DecodeRate(const folio::v1::Usage& usage);
// "eos", "stop", "length".
std::string FinishName(const folio::v1::Finished& finished);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_ANSWER_H_
