// folioctl man writes manual pages, made of the help of the commands.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "services/cli/command.h"
#include "services/cli/command_tree.h"
#include "services/cli/exit_code.h"
#include "services/runtime/version.h"

namespace folio::cli {
namespace {

// Text in the language of man(7). A line must not begin with a control character.
std::string Roff(absl::string_view text) {
  std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  std::vector<std::string> lines = absl::StrSplit(escaped, '\n');
  for (std::string& line : lines) {
    if (!line.empty() && (line[0] == '.' || line[0] == '\'')) line.insert(0, "\\&");
  }
  return absl::StrJoin(lines, "\n");
}

// Lines that stay as they are.
std::string Verbatim(const std::string& text) {
  return absl::StrCat(".nf\n", Roff(text), "\n.fi\n");
}

// Lists within a description keep their lines.
std::string Paragraph(const std::string& text) {
  std::string out;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    const bool item = !line.empty() && line[0] == ' ';
    absl::StrAppend(&out, item ? ".br\n" : "", Roff(absl::StripLeadingAsciiWhitespace(line)), "\n");
  }
  return out;
}

std::string PageName(const CommandInfo& command) { return absl::StrJoin(command.words, "-"); }

std::string FlagEntry(const FlagInfo& flag) {
  std::string entry = absl::StrCat(".TP\n\\fB", Roff(flag.name), "\\fR");
  if (flag.takes_value && flag.name[0] == '-') {
    const std::string value =
        flag.values.empty() || flag.values.size() > 6 ? "VALUE" : absl::StrJoin(flag.values, "|");
    absl::StrAppend(&entry, "=\\fI", Roff(value), "\\fR");
  }
  absl::StrAppend(&entry, "\n", Paragraph(flag.description));
  if (flag.required) entry += ".br\nIt is required.\n";
  if (!flag.default_text.empty()) {
    absl::StrAppend(&entry, ".br\nThe default is ", Roff(flag.default_text), ".\n");
  }
  return entry;
}

std::string Section(const std::string& title, const std::string& text) {
  return text.empty() ? "" : absl::StrCat(".SH ", title, "\n", text);
}

std::string Synopsis(const CommandInfo& command) {
  std::string text = absl::StrCat("\\fB", Roff(absl::StrJoin(command.words, " ")), "\\fR");
  if (!command.commands.empty()) text += " \\fICOMMAND\\fR";
  for (const FlagInfo& argument : command.arguments) {
    absl::StrAppend(&text, " ", argument.required ? "" : "[", "\\fI",
                    absl::AsciiStrToUpper(argument.name), "\\fR", argument.repeats ? "..." : "",
                    argument.required ? "" : "]");
  }
  return absl::StrCat(text, " [\\fIFLAGS\\fR]\n");
}

std::string Environment() {
  const auto entry = [](const char* name, const char* text) {
    return absl::StrCat(".TP\n\\fB", name, "\\fR\n", Roff(text), "\n");
  };
  return absl::StrCat(
      entry("FOLIO_ADDRESS", "The worker's address, if no --address is given."),
      entry("FOLIO_MANAGER_ADDRESS", "The manager's address, if no --address is given."),
      entry("FOLIO_CONTEXT", "The named context, if no --context is given."),
      entry("FOLIO_CONFIG", "The file with the named contexts."),
      entry("NO_COLOR", "If it is set, the output has no colours."));
}

std::string Page(const CommandInfo& command, const CommandInfo& program) {
  const bool whole = &command == &program;
  std::string commands;
  for (const CommandInfo& one : command.commands) {
    absl::StrAppend(&commands, ".TP\n\\fB", Roff(one.name()), "\\fR\n", Paragraph(one.description));
  }
  std::string flags;
  for (const FlagInfo& flag : command.flags) flags += FlagEntry(flag);
  std::string global;
  if (!whole) {
    for (const FlagInfo& flag : program.flags) {
      if (flag.name != "--help" && flag.name != "--version") global += FlagEntry(flag);
    }
  }
  std::string arguments;
  for (const FlagInfo& argument : command.arguments) arguments += FlagEntry(argument);
  const std::string more =
      whole ? absl::StrCat("\\fBfolioctl\\-\\fICOMMAND\\fR(1) has the flags of a command.\n")
            : absl::StrCat("\\fBfolioctl\\fR(1)\n");
  return absl::StrCat(
      ".TH ", absl::AsciiStrToUpper(Roff(PageName(command))), " 1 \"\" \"Folio ", Version(),
      "\" \"Folio\"\n.ad l\n.nh\n.SH NAME\n", Roff(PageName(command)), " \\- ",
      Roff(absl::StrReplaceAll(command.description, {{"\n", " "}})), "\n",
      Section("SYNOPSIS", Synopsis(command)), Section("COMMANDS", commands),
      Section("ARGUMENTS", arguments), Section("OPTIONS", flags),
      Section("OPTIONS OF ALL COMMANDS", global),
      Section("EXAMPLES", command.examples.empty() ? "" : Verbatim(command.examples)),
      Section("EXIT STATUS", Verbatim(kExitCodesHelp)), Section("ENVIRONMENT", Environment()),
      Section("SEE ALSO", more));
}

absl::Status WritePages(const CommandInfo& command, const CommandInfo& program,
                        const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", PageName(command), ".1");
  std::ofstream file(path);
  file << Page(command, program) << std::flush;
  if (!file) return absl::UnknownError(absl::StrCat(path, " cannot be written"));
  for (const CommandInfo& one : command.commands) {
    if (absl::Status status = WritePages(one, program, directory); !status.ok()) return status;
  }
  return absl::OkStatus();
}

struct ManFlags {
  std::vector<std::string> words;
  std::string directory;
};

absl::Status Man(const ManFlags& flags, const CLI::App& root, Context& context) {
  const CommandInfo program = Describe(root);
  if (!flags.directory.empty()) {
    std::error_code error;
    std::filesystem::create_directories(flags.directory, error);
    return WritePages(program, program, flags.directory);
  }
  const CommandInfo* command = &program;
  for (const std::string& word : flags.words) {
    const auto found = std::find_if(command->commands.begin(), command->commands.end(),
                                    [&](const CommandInfo& one) { return one.name() == word; });
    if (found == command->commands.end()) {
      return UsageError(absl::StrCat("there is no command \"", absl::StrJoin(command->words, " "),
                                     " ", word, "\""));
    }
    command = &*found;
  }
  context.terminal.out << Page(*command, program);
  return absl::OkStatus();
}

}  // namespace

void AddMan(CLI::App& root, Context& context) {
  auto flags = std::make_shared<ManFlags>();
  CLI::App* command = AddCommand(root, "man", "Print the manual page of folioctl or of a command",
                                 "  folioctl man sequences | man -l -\n"
                                 "  folioctl man --directory /usr/local/share/man/man1");
  command->add_option("words", flags->words, "The command's words");
  command->add_option("--directory", flags->directory,
                      "Write the pages of all commands into this directory");
  command->callback([flags, &root, &context] {
    context.needs_addresses = context.gives_data = false;
    context.action = [flags, &root, &context] { return Man(*flags, root, context); };
  });
}

}  // namespace folio::cli
