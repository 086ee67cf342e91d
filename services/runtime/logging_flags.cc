// These flags are not in logging.cc, so that programs that log without flags do not get them.
#include <string>

#include "absl/flags/flag.h"
#include "services/runtime/logging.h"

ABSL_FLAG(std::string, log_format, "text", "format of log lines: text or json");
ABSL_FLAG(std::string, log_level, "info",
          "lowest level that is logged: debug, info, warning or error");

namespace folio::log {

absl::Status ConfigureFromFlags() {
  const std::string format = absl::GetFlag(FLAGS_log_format);
  const std::string level = absl::GetFlag(FLAGS_log_level);
  if (format != "text" && format != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("--log_format=", format, ": must be text or json"));
  }
  Level least = Level::kInfo;
  if (level == "debug") {
    least = Level::kDebug;
  } else if (level == "warning") {
    least = Level::kWarning;
  } else if (level == "error") {
    least = Level::kError;
  } else if (level != "info") {
    return absl::InvalidArgumentError(
        absl::StrCat("--log_level=", level, ": must be debug, info, warning or error"));
  }
  Configure(format == "json" ? Format::kJson : Format::kText, least);
  return absl::OkStatus();
}

}  // namespace folio::log
