#include "services/runtime/flags.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "services/runtime/logging.h"
#include "services/runtime/version.h"

namespace folio {
namespace {

using StringList = std::vector<std::string>;
constexpr int kMaxFlagfileDepth = 8;

class Parser {
 public:
  absl::Status Parse(absl::Span<const std::string> args, int depth);
  CommandLine line;

 private:
  absl::Status ParseOne(absl::Span<const std::string> args, size_t* index, int depth);
  absl::Status Flagfile(const std::string& path, int depth);
  absl::Status Set(const std::string& name, absl::CommandLineFlag& flag, const std::string& value);

  std::set<std::string> seen_;
};

absl::Status Parser::Parse(absl::Span<const std::string> args, int depth) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--") {
      line.positional.insert(line.positional.end(), args.begin() + i + 1, args.end());
      return absl::OkStatus();
    }
    if (args[i].size() < 2 || args[i][0] != '-') {
      line.positional.push_back(args[i]);
      continue;
    }
    if (absl::Status status = ParseOne(args, &i, depth); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Parses the flag at args[*index], and advances *index if the value is the next argument.
absl::Status Parser::ParseOne(absl::Span<const std::string> args, size_t* index, int depth) {
  const std::string& arg = args[*index];
  const size_t dashes = arg[1] == '-' ? 2 : 1;
  const size_t equals = std::min(arg.find('='), arg.size());
  bool has_value = equals < arg.size();
  std::string value = has_value ? arg.substr(equals + 1) : "";
  const std::string name = absl::StrReplaceAll(arg.substr(dashes, equals - dashes), {{"-", "_"}});
  if (name == "help" || name == "h" || name == "version") {
    (name == "version" ? line.version : line.help) = true;
    return absl::OkStatus();
  }
  absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
  if (!has_value) {
    if (flag != nullptr && flag->IsOfType<bool>()) return Set(name, *flag, "true");
    if (flag == nullptr && name.starts_with("no")) {
      absl::CommandLineFlag* positive = absl::FindCommandLineFlag(name.substr(2));
      if (positive != nullptr && positive->IsOfType<bool>()) {
        return Set(name.substr(2), *positive, "false");
      }
    }
  }
  if (flag == nullptr && name != "flagfile") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown flag --", name, "; --help lists the flags"));
  }
  if (!has_value) {
    if (*index + 1 >= args.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " needs a value: --", name, "=..."));
    }
    value = args[++*index];
  }
  if (name == "flagfile") return Flagfile(value, depth);
  return Set(name, *flag, value);
}

absl::Status Parser::Set(const std::string& name, absl::CommandLineFlag& flag,
                         const std::string& value) {
  std::string text = value;
  // A list flag that is given again appends.
  if (flag.IsOfType<StringList>() && !seen_.insert(name).second) {
    text = absl::StrCat(flag.CurrentValue(), ",", value);
  }
  std::string error;
  if (flag.ParseFrom(text, &error)) return absl::OkStatus();
  const absl::string_view reason = absl::StripAsciiWhitespace(error);
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, "=", value, ": ", reason, " (", flag.Help(), ")"));
}

absl::Status Parser::Flagfile(const std::string& path, int depth) {
  if (depth >= kMaxFlagfileDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("--flagfile=", path, ": files include each other too deeply"));
  }
  std::ifstream file(path);
  if (!file) {
    return absl::InvalidArgumentError(absl::StrCat("--flagfile=", path, ": cannot read the file"));
  }
  StringList args;
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    const std::string flag(absl::StripAsciiWhitespace(text));
    if (flag.empty() || flag[0] == '#') continue;
    if (flag[0] != '-') {
      return absl::InvalidArgumentError(absl::StrCat("--flagfile=", path, ": line ", number, " (\"",
                                                     flag,
                                                     "\") is not a flag; write --name=value"));
    }
    args.push_back(flag);
  }
  absl::Status status = Parse(args, depth + 1);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("in ", path, ": ", status.message()));
}

}  // namespace

absl::StatusOr<CommandLine> ParseFlags(absl::Span<const std::string> args) {
  Parser parser;
  if (absl::Status status = parser.Parse(args, 0); !status.ok()) return status;
  return std::move(parser.line);
}

std::string FlagsHelp() {
  std::map<std::string, absl::CommandLineFlag*> ours;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    // Flags of the libraries that we link are left out.
    if (absl::StrContains(flag->Filename(), "services/")) ours.emplace(name, flag);
  }
  std::string help = "Flags (- and _ mean the same in names):\n";
  for (const auto& [name, flag] : ours) {
    const std::string value = flag->DefaultValue();
    absl::StrAppend(&help, "  --", name, value.empty() ? "" : absl::StrCat("=", value), "\n      ",
                    flag->Help(), "\n");
  }
  absl::StrAppend(&help, "  --flagfile=PATH\n      read flags from a file, one per line\n",
                  "  --version\n      print the version\n");
  return help;
}

absl::Status BadFlag(absl::string_view flag, absl::string_view value, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, ": ", why));
}

absl::Status CheckFlagRange(absl::string_view flag, int value, int least, int most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return BadFlag(flag, absl::StrCat(value), absl::StrCat("must be from ", least, " to ", most));
}

absl::Status CheckFlagRange(absl::string_view flag, absl::Duration value, absl::Duration least,
                            absl::Duration most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return BadFlag(flag, absl::FormatDuration(value),
                 absl::StrCat("must be from ", absl::FormatDuration(least), " to ",
                              absl::FormatDuration(most), ", such as 10s"));
}

void ExitBadFlag(absl::string_view program, const absl::Status& why) {
  std::fprintf(stderr, "%s: %s\n", std::string(program).c_str(),
               std::string(why.message()).c_str());
  std::exit(kExitBadFlags);
}

void ParseFlagsOrExit(int argc, char** argv, absl::string_view usage) {
  const std::vector<absl::string_view> path = absl::StrSplit(argv[0], '/');
  const std::string program(path.back());
  auto line = ParseFlags(StringList(argv + 1, argv + argc));
  if (!line.ok()) ExitBadFlag(program, line.status());
  if (line->help) {
    std::printf("%s\n\n%s", std::string(usage).c_str(), FlagsHelp().c_str());
    std::exit(0);
  }
  if (line->version) {
    std::printf("%s %s\n", program.c_str(), BuildDescription().c_str());
    std::exit(0);
  }
  if (!line->positional.empty()) {
    ExitBadFlag(program,
                absl::InvalidArgumentError(absl::StrCat(
                    "unexpected argument \"", line->positional[0], "\"; --help explains")));
  }
  if (absl::Status status = log::ConfigureFromFlags(); !status.ok()) ExitBadFlag(program, status);
}

}  // namespace folio
