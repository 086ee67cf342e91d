// These classes are the flags that several commands share. Each turns its flags into a message.
#ifndef FOLIO_SERVICES_CLI_OPTIONS_H_
#define FOLIO_SERVICES_CLI_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "folio/v1/inference.pb.h"
#include "services/cli/terminal.h"

namespace folio::cli {

// --policy, --budget, --schedule, --sink, --recent, --compaction, --compaction_stride, --layers,
// --prompt_share, --protect_ends, --segments, --mode.
struct CacheFlags {
  std::string policy = "full";
  std::string budget;  // tokens, a share of the prompt, or a list of tokens for each layer
  std::string schedule = "uniform";
  std::optional<uint32_t> sink, recent;
  std::string compaction = "automatic";
  std::optional<uint32_t> compaction_stride;
  std::string layers = "per_layer";
  std::optional<float> prompt_share;
  float protect_ends = 0;
  uint32_t segments = 1;
  std::string mode = "pipelined";

  void Add(CLI::App& command);
  // A usage error (exit_code.h) for a text that is not a policy or not a budget. The server checks
  // the rest.
  absl::StatusOr<folio::v1::CacheOptions> ToProto() const;
  // The same flags with the policy and the budget of "POLICY:BUDGET", or with the policy of
  // "POLICY" alone. A policy may contain a colon itself.
  CacheFlags With(const std::string& text) const;

 private:
  void AddShares(CLI::App& command);
};

// --temperature, --top_k, --top_p, --min_p, --seed.
struct SamplingFlags {
  float temperature = 0;
  uint32_t top_k = 0;
  std::optional<float> top_p;
  float min_p = 0;
  std::optional<uint64_t> seed;

  void Add(CLI::App& command);
  folio::v1::SamplingParams ToProto() const;
};

// --max_tokens, --stop, --ignore_eos, --label, --priority, --tenant.
struct LengthFlags {
  uint32_t max_tokens = 0;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::string label = "folioctl";
  int32_t priority = 0;
  std::string tenant;

  void Add(CLI::App& command);
  void Fill(folio::v1::GenerateRequest* request) const;
};

// A text given as argument, by --file, or on standard input ("-", or without an argument if
// standard input is not a terminal). --chat and --system turn it into a conversation.
struct PromptFlags {
  std::optional<std::string> text;
  std::optional<std::string> file;
  bool chat = false;
  std::string system;

  void Add(CLI::App& command);
  // A usage error if there is none, more than one, or if it is not UTF-8. NOT_FOUND if the file
  // cannot be read.
  absl::StatusOr<folio::v1::Input> Read(Terminal& terminal) const;
};

// --reason of an order to a manager.
struct ReasonFlags {
  std::string text;

  void Add(CLI::App& command);
};

// The contents of a file, or of standard input for "-". Errors as above.
absl::StatusOr<std::string> ReadText(const std::string& file, Terminal& terminal);

// Parses "30s", "1m30s" or "500ms". A number without a unit is seconds.
bool ParseTimeout(const std::string& text, absl::Duration* timeout);

// Turns "--top-p=1" into "--top_p=1", because dashes and underscores in flag names are the same.
// Values and arguments after "--" stay as they are.
std::vector<std::string> NormalizeFlags(std::vector<std::string> arguments);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_OPTIONS_H_
