// ParseFlagsOrExit reads the command line of each Folio program. It uses Abseil flags, with
//   - `--pool-bytes` and `--pool_bytes` as two spellings of one flag,
//   - list flags (std::vector<std::string>) that are given once with commas or several times,
//   - `--flagfile=PATH`, a file with one flag per line (blank lines and lines that start with # are
//     skipped),
//   - exit code 2 and one clear line on stderr for every mistake.
#ifndef FOLIO_SERVICES_RUNTIME_FLAGS_H_
#define FOLIO_SERVICES_RUNTIME_FLAGS_H_

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

// The text that lists every flag of our own sources with its default and description.
std::string FlagsHelp();

// Called by main. It parses the flags, configures the log from them, and exits with 0 after --help
// and --version or with 2 after an error or a positional argument. `usage` is the text above the
// flags in --help.
void ParseFlagsOrExit(int argc, char** argv, absl::string_view usage);

// The error for a value that is well formed but not allowed, "--flag=value: why".
absl::Status BadFlag(absl::string_view flag, absl::string_view value, absl::string_view why);
// OK within [least, most], otherwise a BadFlag that names both limits.
absl::Status CheckFlagRange(absl::string_view flag, int value, int least, int most);
absl::Status CheckFlagRange(absl::string_view flag, absl::Duration value, absl::Duration least,
                            absl::Duration most);

// Prints "program: message" to stderr and exits with code 2. It is for flag values that only main
// can check.
[[noreturn]] void ExitBadFlag(absl::string_view program, const absl::Status& why);

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_FLAGS_H_
