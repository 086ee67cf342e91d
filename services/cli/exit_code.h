// ExitCode turns a status into folioctl's exit code, by which scripts tell failures apart.
#ifndef FOLIO_SERVICES_CLI_EXIT_CODE_H_
#define FOLIO_SERVICES_CLI_EXIT_CODE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace folio::cli {

inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

// INVALID_ARGUMENT for flags that exclude each other, which folioctl finds before it asks a server.
inline absl::Status UsageError(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload("folio.usage", {});
  return status;
}
inline bool IsUsageError(const absl::Status& status) {
  return status.GetPayload("folio.usage").has_value();
}

// 0 for OK. Never kExitInterrupted.
inline int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kUnavailable:
      return 3;
    case absl::StatusCode::kNotFound:
      return 4;
    case absl::StatusCode::kInvalidArgument:
      return IsUsageError(status) ? kExitUsage : 5;
    case absl::StatusCode::kOutOfRange:
      return 5;
    case absl::StatusCode::kResourceExhausted:
      return 6;
    case absl::StatusCode::kDeadlineExceeded:
      return 7;
    case absl::StatusCode::kFailedPrecondition:
      return 8;
    default:
      return 1;
  }
}

inline constexpr char kExitCodesHelp[] =
    "Exit codes: 0 ok, 1 other failure, 2 usage, 3 unavailable, 4 not found, 5 invalid argument,\n"
    "  6 resource exhausted, 7 deadline exceeded, 8 failed precondition, 130 interrupted";

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_EXIT_CODE_H_
