#include "services/cli/rule_flags.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/cli/exit_code.h"

namespace folio::cli {
namespace {

// The text, or what is in FILE of @FILE.
absl::StatusOr<std::string> TextOf(const std::string& given) {
  if (given.empty() || given.front() != '@') return given;
  std::ifstream file(given.substr(1), std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", given.substr(1)));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::Status AddBias(const std::string& given, folio::v1::SamplingParams* sampling) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(given, absl::MaxSplits('=', 1));
  uint32_t token = 0;
  float bias = 0;
  if (!absl::SimpleAtoi(parts.first, &token) || !absl::SimpleAtof(parts.second, &bias)) {
    return UsageError(absl::StrCat("--logit_bias ", given,
                                   ": write TOKEN=BIAS, such as 1917=-100 to exclude token 1917"));
  }
  folio::v1::LogitBias* const message = sampling->add_logit_bias();
  message->set_token(token);
  message->set_bias(bias);
  return absl::OkStatus();
}

}  // namespace

void RuleFlags::Add(CLI::App& command) {
  command.add_option("--presence_penalty", presence_penalty,
                     "Lower each token that the answer has, from -2 to 2 (0: off)");
  command.add_option("--frequency_penalty", frequency_penalty,
                     "Lower it by this for each time that it came, from -2 to 2 (0: off)");
  command.add_option("--repetition_penalty", repetition_penalty,
                     "Divide the logits of tokens that prompt or answer have (1: off)");
  command
      .add_option("--logit_bias", logit_bias,
                  "TOKEN=BIAS, added to the token's logit, from -100 (never) to 100; may be given "
                  "several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--min_tokens", min_tokens, "So many tokens come before the answer may end");
  command.add_option("--stop_token_ids", stop_token_ids, "End the answer with one of these tokens")
      ->delimiter(',');
  auto* const schema = command.add_option(
      "--json_schema", json_schema, "The answer is JSON of this schema, which is a text or @FILE");
  auto* const expression = command.add_option(
      "--regex", regex, "The answer matches this regular expression, which is a text or @FILE");
  auto* const rules = command.add_option(
      "--grammar", grammar, "The answer follows this Lark grammar, which is a text or @FILE");
  schema->excludes(expression)->excludes(rules);
  expression->excludes(rules);
}

absl::Status RuleFlags::Fill(folio::v1::GenerateRequest* request) const {
  folio::v1::SamplingParams* const sampling = request->mutable_sampling();
  sampling->set_presence_penalty(presence_penalty);
  sampling->set_frequency_penalty(frequency_penalty);
  if (repetition_penalty.has_value()) sampling->set_repetition_penalty(*repetition_penalty);
  for (const std::string& bias : logit_bias) {
    if (absl::Status status = AddBias(bias, sampling); !status.ok()) return status;
  }
  request->set_min_tokens(min_tokens);
  for (const uint32_t token : stop_token_ids) request->add_stop_token_ids(token);
  for (const std::string* form : {&json_schema, &regex, &grammar}) {
    if (form->empty()) continue;
    const auto text = TextOf(*form);
    if (!text.ok()) return text.status();
    folio::v1::OutputFormat* const format = request->mutable_format();
    if (form == &json_schema) format->set_json_schema(*text);
    if (form == &regex) format->set_regex(*text);
    if (form == &grammar) format->set_grammar(*text);
  }
  return absl::OkStatus();
}

}  // namespace folio::cli
