// CommandInfo is a command as data: its words, its help and its flags, with those of the commands
// below it. Completions and manual pages are made of it, so that they say what --help says.
#ifndef FOLIO_SERVICES_CLI_COMMAND_TREE_H_
#define FOLIO_SERVICES_CLI_COMMAND_TREE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace folio::cli {

// A flag, or an argument without a name of a flag.
struct FlagInfo {
  std::string name;          // "--budget", "-h", or "id" for an argument
  std::string description;   // as in the help, with its line breaks
  std::string default_text;  // empty if there is none
  bool takes_value = false;
  bool required = false;
  bool repeats = false;
  // The values that the flag may have if these are enumerated. They come from its check, or from
  // the list at the end of its description.
  std::vector<std::string> values;
};

struct CommandInfo {
  std::vector<std::string> words;  // "folioctl", "config", "view"
  std::string description;
  std::string examples;  // lines that begin with two spaces
  std::vector<FlagInfo> flags;
  std::vector<FlagInfo> arguments;
  std::vector<CommandInfo> commands;

  const std::string& name() const { return words.back(); }
};

// The command and all below it. Flags of the commands above it are not repeated.
CommandInfo Describe(const CLI::App& app);

// Text up to the end of its first line.
std::string FirstLine(const std::string& text);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_COMMAND_TREE_H_
