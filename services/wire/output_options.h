// OutputOptions says which tokens and texts a client wants to see. A worker sends it to the manager
// when it opens a sequence, and the manager returns it to the worker that continues the sequence
// after a failure. The manager keeps it as bytes and does not read it, so that workers may add
// options without a new manager.
//
// This header needs no protobuf, because the worker's step loop includes it.
#ifndef FOLIO_SERVICES_WIRE_OUTPUT_OPTIONS_H_
#define FOLIO_SERVICES_WIRE_OUTPUT_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/base/ids.h"

namespace folio::v1 {
class OutputFormat;
}

namespace folio::wire {

// The form that an answer has to take.
struct OutputFormat {
  enum class Kind : uint8_t { kFree, kJsonSchema, kRegex, kGrammar };
  Kind kind = Kind::kFree;
  std::string text;  // the schema, expression or grammar
  friend bool operator==(const OutputFormat&, const OutputFormat&) = default;
};

struct OutputOptions {
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::optional<uint32_t> logprobs;
  uint32_t min_tokens = 0;
  std::vector<TokenId> stop_tokens;
  OutputFormat format = {};
  friend bool operator==(const OutputOptions&, const OutputOptions&) = default;
};

OutputFormat FromProto(const v1::OutputFormat& format);

// The bytes are the protocol's OutputOptions message. Parse returns nothing for other bytes.
std::string Serialize(const OutputOptions& options);
std::optional<OutputOptions> ParseOutputOptions(const std::string& bytes);

}  // namespace folio::wire

#endif  // FOLIO_SERVICES_WIRE_OUTPUT_OPTIONS_H_
