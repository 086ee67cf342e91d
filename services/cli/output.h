// OutputFormat is the form of a command's answer, which --output chooses. These functions write
// messages and JSON values in the forms for programs. YAML has the same names and values as JSON,
// so that a reader may switch between the two.
#ifndef FOLIO_SERVICES_CLI_OUTPUT_H_
#define FOLIO_SERVICES_CLI_OUTPUT_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

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

// The whole answer of a command, which ends in a line break. Precondition: IsStructured(format).
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
