// Output is the form of a command's answer, which --output and --query choose. These functions
// write messages and JSON values in the forms for programs. YAML has the same names and values as
// JSON, so that a reader may switch between the two.
#ifndef FOLIO_SERVICES_CLI_OUTPUT_H_
#define FOLIO_SERVICES_CLI_OUTPUT_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "services/cli/json_query.h"

namespace folio::cli {

enum class OutputFormat : uint8_t {
  kTable,  // for people
  kWide,   // the same with further columns
  kJson,
  kYaml,
};

// The answer is for programs.
inline bool IsStructured(OutputFormat format) {
  return format == OutputFormat::kJson || format == OutputFormat::kYaml;
}

struct Output {
  OutputFormat format = OutputFormat::kTable;
  std::shared_ptr<const JsonQuery> query = nullptr;  // or null, for all of the answer

  bool structured() const { return IsStructured(format); }
};

// Writes the whole answer of a command, or what the query selects of it. After INVALID_ARGUMENT,
// because the query does not fit it, nothing was written. Precondition: output.structured().
absl::Status WriteDocument(const google::protobuf::Message& message, const Output& output,
                           std::ostream& out);
absl::Status WriteDocument(const nlohmann::ordered_json& value, const Output& output,
                           std::ostream& out);
// Writes one of many messages and flushes. As above, but a query that gives null leaves the message
// out.
absl::Status WriteItem(const google::protobuf::Message& message, const Output& output,
                       std::ostream& out);

// All of an answer, which ends in a line break. Precondition: IsStructured(format).
std::string Document(const google::protobuf::Message& message, OutputFormat format);
std::string Document(const nlohmann::ordered_json& value, OutputFormat format);

// One of many messages, which ends in a line break: a line of JSON, or a YAML document that begins
// with "---". Precondition as above.
std::string StreamItem(const google::protobuf::Message& message, OutputFormat format);

// YAML 1.2 in block style. A string is quoted as in JSON unless it cannot be taken for anything
// else. Ends in a line break.
std::string ToYaml(const nlohmann::ordered_json& value);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_OUTPUT_H_
