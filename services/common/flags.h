// Command lines of Folio's programs: Abseil flags, with
//   - `--pool-bytes` and `--pool_bytes` meaning the same,
//   - list flags (std::vector<std::string>) given once with commas or several times,
//   - `--flagfile=PATH`: one flag per line, blank lines and lines that start with # are skipped,
//   - exit code 2 and one clear line on stderr for anything wrong.
#ifndef FOLIO_SERVICES_COMMON_FLAGS_H_
#define FOLIO_SERVICES_COMMON_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace folio {

inline constexpr int kExitBadFlags = 2;

struct CommandLine {
  std::vector<std::string> positional;
  bool help = false;     // --help was given
  bool version = false;  // --version was given
};

// Sets the flags. `args` is without the program's name. INVALID_ARGUMENT names the flag and the
// fix.
absl::StatusOr<CommandLine> ParseFlags(absl::Span<const std::string> args);

// Every flag defined in our own sources, with default and description.
std::string FlagsHelp();

// What main calls: ParseFlags, ConfigureFromFlags of the log, then --help and --version (exit 0),
// errors and positional arguments (exit 2). `usage` is the text above the flags in --help.
void ParseFlagsOrExit(int argc, char** argv, absl::string_view usage);

// For values that are well formed and still cannot be. INVALID_ARGUMENT: "--flag=value: why".
absl::Status BadFlag(absl::string_view flag, absl::string_view value, absl::string_view why);
// OK within [least, most]; otherwise a BadFlag that names both.
absl::Status CheckFlagRange(absl::string_view flag, int value, int least, int most);
absl::Status CheckFlagRange(absl::string_view flag, absl::Duration value, absl::Duration least,
                            absl::Duration most);

// "program: message" on stderr, exit code 2; for flag values that only main can judge.
[[noreturn]] void ExitBadFlag(absl::string_view program, const absl::Status& why);

}  // namespace folio

#endif  // FOLIO_SERVICES_COMMON_FLAGS_H_
