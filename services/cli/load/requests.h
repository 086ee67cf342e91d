// RequestMaker makes the requests of a load run from a seed. FindPlainTokens finds the tokens that
// prompts are made of.
#ifndef FOLIO_SERVICES_CLI_LOAD_REQUESTS_H_
#define FOLIO_SERVICES_CLI_LOAD_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "folio/v1/inference.pb.h"
#include "services/cli/load/lengths.h"
#include "services/client/client.h"

namespace folio::load {

// A cache setting of the mix. Its share of the requests is its weight over the sum of all weights.
struct Choice {
  std::string name;
  folio::v1::CacheOptions cache;
  double weight = 1;
};

// It describes the requests of a run.
struct RequestPlan {
  Lengths prompt, output;
  std::vector<Choice> mix;  // one or more
  folio::v1::SamplingParams sampling;
  bool stop_at_eos = false;
  std::string label;
  uint64_t seed = 0;
  std::vector<uint32_t> tokens;  // of which prompts are made
  uint32_t context = 0;          // of the model: prompt and output fit into it
};

struct Made {
  folio::v1::GenerateRequest request;
  size_t choice = 0;
  uint32_t prompt_tokens = 0;
};

// Request `number` is the same in every run with the plan, whatever was made before. An answer that
// is sampled has a seed that follows from it too. The plan's lengths must fit into the context, as
// CheckLengths says.
Made MakeRequest(const RequestPlan& plan, uint64_t number);

// INVALID_ARGUMENT if the longest prompt and the longest output are more than the context.
// Distributions without a longest one are cut at what is left.
absl::Status CheckLengths(const RequestPlan& plan);

// The tokens of the worker's vocabulary that are text. Special tokens are left out with their
// neighbours: the worker is asked for the texts of ranges of tokens, with and without special ones.
absl::StatusOr<std::vector<uint32_t>> FindPlainTokens(client::Client& client,
                                                      const folio::v1::GetModelResponse& model,
                                                      const client::CallOptions& options);

}  // namespace folio::load

#endif  // FOLIO_SERVICES_CLI_LOAD_REQUESTS_H_
