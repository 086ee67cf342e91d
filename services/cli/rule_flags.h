// RuleFlags are the flags that say how the tokens of an answer are changed before they are chosen,
// when it may end, and its form. docs/answers.md has their meaning.
#ifndef FOLIO_SERVICES_CLI_RULE_FLAGS_H_
#define FOLIO_SERVICES_CLI_RULE_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "folio/v1/inference.pb.h"

namespace CLI {
class App;
}

namespace folio::cli {

// --presence_penalty, --frequency_penalty, --repetition_penalty, --logit_bias, --min_tokens,
// --stop_token_ids, --json_schema, --regex, --grammar.
struct RuleFlags {
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::optional<float> repetition_penalty;
  std::vector<std::string> logit_bias;  // TOKEN=BIAS
  uint32_t min_tokens = 0;
  std::vector<uint32_t> stop_token_ids;
  std::string json_schema, regex, grammar;  // each a text, or @FILE

  void Add(CLI::App& command);
  // A usage error for a bias that is not TOKEN=BIAS, and NOT_FOUND for a file that cannot be read.
  // The server checks the rest.
  absl::Status Fill(folio::v1::GenerateRequest* request) const;
};

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_RULE_FLAGS_H_
