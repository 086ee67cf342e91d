// folioctl completion writes what a shell needs to complete folioctl's words.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "services/cli/command.h"
#include "services/cli/command_tree.h"

namespace folio::cli {
namespace {

// All commands, the program itself first.
void Flatten(const CommandInfo& command, std::vector<const CommandInfo*>* all) {
  all->push_back(&command);
  for (const CommandInfo& one : command.commands) Flatten(one, all);
}

std::vector<const CommandInfo*> AllOf(const CommandInfo& program) {
  std::vector<const CommandInfo*> all;
  Flatten(program, &all);
  return all;
}

std::string Words(const CommandInfo& command) { return absl::StrJoin(command.words, " "); }

// The words that may follow a command: commands below it, its flags and the program's, and the
// values of its first argument.
std::string Following(const CommandInfo& command, const CommandInfo& program) {
  std::vector<std::string> words;
  for (const CommandInfo& one : command.commands) words.push_back(one.name());
  if (!command.arguments.empty()) {
    const std::vector<std::string>& values = command.arguments[0].values;
    words.insert(words.end(), values.begin(), values.end());
  }
  for (const FlagInfo& flag : command.flags) words.push_back(flag.name);
  if (&command != &program) {
    for (const FlagInfo& flag : program.flags) {
      if (flag.name != "--help" && flag.name != "--version") words.push_back(flag.name);
    }
  }
  return absl::StrJoin(words, " ");
}

// A list of "WORDS OF THE COMMAND) echo VALUES;;" lines.
std::string BashFlagValues(const CommandInfo& program) {
  std::string cases;
  for (const CommandInfo* command : AllOf(program)) {
    for (const FlagInfo& flag : command->flags) {
      if (!flag.takes_value) continue;
      const char* any = command == &program ? "*" : "";
      absl::StrAppend(&cases, "    \"", Words(*command), "\"", any, "\" ", flag.name, "\") words='",
                      absl::StrJoin(flag.values, " "), "'; takes=1 ;;\n");
    }
  }
  return cases;
}

std::string Bash(const CommandInfo& program) {
  std::string next;
  for (const CommandInfo* command : AllOf(program)) {
    absl::StrAppend(&next, "    \"", Words(*command), "\") words='", Following(*command, program),
                    "' ;;\n");
  }
  std::string commands;
  for (const CommandInfo* command : AllOf(program)) {
    if (command != &program) absl::StrAppend(&commands, "|", Words(*command), "|");
  }
  return absl::StrCat(R"(# bash completion of folioctl, made by: folioctl completion bash
_folioctl() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  local command=folioctl words= takes= i
  local commands=')",
                      commands, R"('
  # bash takes "--flag=value" for three words.
  if [[ $word == = ]]; then word=; fi
  if [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ $commands == *"|$command ${COMP_WORDS[i]}|"* ]]; then command+=" ${COMP_WORDS[i]}"; fi
  done
  case "$command $before" in
)",
                      BashFlagValues(program), R"(  esac
  if [[ -n $takes ]]; then
    if [[ -n $words ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    else
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
    return
  fi
  case "$command" in
)",
                      next, R"(  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _folioctl folioctl
)");
}

// Single-quoted for zsh. The text is one line.
std::string ZshQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// A word with its description, for _describe.
std::string ZshWord(const std::string& word, const std::string& description) {
  return absl::StrCat(" ", ZshQuoted(absl::StrCat(word, ":", FirstLine(description))));
}

std::string ZshFollowing(const CommandInfo& command, const CommandInfo& program) {
  std::string words;
  for (const CommandInfo& one : command.commands) words += ZshWord(one.name(), one.description);
  if (!command.arguments.empty()) {
    for (const std::string& value : command.arguments[0].values) words += ZshWord(value, "");
  }
  for (const FlagInfo& flag : command.flags) words += ZshWord(flag.name, flag.description);
  if (&command == &program) return words;
  for (const FlagInfo& flag : program.flags) {
    const bool own = flag.name == "--help" || flag.name == "--version";
    if (!own) words += ZshWord(flag.name, flag.description);
  }
  return words;
}

std::string Zsh(const CommandInfo& program) {
  std::string commands;
  std::string values;
  std::string next;
  for (const CommandInfo* command : AllOf(program)) {
    const std::string name = ZshQuoted(Words(*command));
    const bool all = command == &program;
    if (!all) absl::StrAppend(&commands, commands.empty() ? "" : "|", name);
    for (const FlagInfo& flag : command->flags) {
      if (!flag.takes_value) continue;
      const std::string then = flag.values.empty()
                                   ? "_files"
                                   : absl::StrCat("compadd -- ", absl::StrJoin(flag.values, " "));
      absl::StrAppend(&values, "    (", name, all ? "*" : "", "' ", flag.name, "') ", then,
                      "; return ;;\n");
    }
    absl::StrAppend(&next, "    (", name, ") names=(", ZshFollowing(*command, program), ") ;;\n");
  }
  return absl::StrCat(R"(#compdef folioctl
# zsh completion of folioctl, made by: folioctl completion zsh
_folioctl() {
  local command=folioctl before=${words[CURRENT-1]} i
  local -a names
  for ((i = 2; i < CURRENT; ++i)); do
    case "$command ${words[i]}" in
      ()",
                      commands, R"() command+=" ${words[i]}" ;;
    esac
  done
  if [[ ${words[CURRENT]} == --*=* ]]; then
    before=${words[CURRENT]%%=*}
    compset -P '*='
  fi
  case "$command $before" in
)",
                      values, R"(  esac
  case "$command" in
)",
                      next, R"(  esac
  _describe 'folioctl' names
}
if [[ $funcstack[1] == _folioctl ]]; then _folioctl "$@"; else compdef _folioctl folioctl; fi
)");
}

std::string FishQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string FishFlag(const FlagInfo& flag, const std::string& condition) {
  std::string line = absl::StrCat("complete -c folioctl", condition, " -l ", flag.name.substr(2));
  if (flag.takes_value && flag.values.empty()) line += " -r -F";
  if (!flag.values.empty()) {
    absl::StrAppend(&line, " -x -a ", FishQuoted(absl::StrJoin(flag.values, " ")));
  }
  return absl::StrCat(line, " -d ", FishQuoted(FirstLine(flag.description)), "\n");
}

std::string Fish(const CommandInfo& program) {
  std::string text = R"(# fish completion of folioctl, made by: folioctl completion fish
function __folioctl_command
    set -l command folioctl
    for word in (commandline -opc)[2..-1]
        if contains -- "$command $word" $__folioctl_commands
            set command "$command $word"
        end
    end
    test "$command" = "$argv[1]"
end
set -g __folioctl_commands)";
  for (const CommandInfo* command : AllOf(program)) {
    absl::StrAppend(&text, " ", FishQuoted(Words(*command)));
  }
  text += "\ncomplete -c folioctl -f\n";
  for (const CommandInfo* command : AllOf(program)) {
    const std::string condition =
        absl::StrCat(" -n \"__folioctl_command '", Words(*command), "'\"");
    for (const CommandInfo& one : command->commands) {
      absl::StrAppend(&text, "complete -c folioctl", condition, " -a ", one.name(), " -d ",
                      FishQuoted(FirstLine(one.description)), "\n");
    }
    for (const FlagInfo& argument : command->arguments) {
      if (argument.values.empty()) continue;
      absl::StrAppend(&text, "complete -c folioctl", condition, " -a ",
                      FishQuoted(absl::StrJoin(argument.values, " ")), "\n");
    }
    // The program's flags may stand behind any command.
    for (const FlagInfo& flag : command->flags) {
      text += FishFlag(flag, command == &program ? "" : condition);
    }
  }
  return text;
}

std::string CompletionFor(const std::string& shell, const CommandInfo& program) {
  if (shell == "bash") return Bash(program);
  return shell == "zsh" ? Zsh(program) : Fish(program);
}

}  // namespace

void AddCompletion(CLI::App& root, Context& context) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command =
      AddCommand(root, "completion", "Print the completion of folioctl for a shell",
                 "  source <(folioctl completion bash)\n"
                 "  folioctl completion zsh > \"${fpath[1]}/_folioctl\"\n"
                 "  folioctl completion fish > ~/.config/fish/completions/folioctl.fish");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
  command->callback([shell, &root, &context] {
    context.needs_addresses = context.gives_data = false;
    context.action = [shell, &root, &context] {
      context.terminal.out << CompletionFor(*shell, Describe(root));
      return absl::OkStatus();
    };
  });
}

}  // namespace folio::cli
