#include "services/cli/command_tree.h"

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace folio::cli {
namespace {

// The check of CLI::IsMember({"a", "b"}) makes a type name that ends in ":{a,b}".
std::vector<std::string> CheckedValues(const std::string& type) {
  const size_t begin = type.find('{');
  const size_t end = type.find('}', begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return absl::StrSplit(type.substr(begin + 1, end - begin - 1), ',', absl::SkipEmpty());
}

// A description may end in a list, whose lines begin with two spaces behind a line that ends in
// "of". A value may have parameters, as in "snap_kv[:window=64]".
std::vector<std::string> ListedValues(const std::string& description) {
  std::vector<std::string> values;
  bool list = false;
  for (const absl::string_view line : absl::StrSplit(description, '\n')) {
    if (list && absl::StartsWith(line, "  ")) {
      const absl::string_view value = absl::StripPrefix(line, "  ");
      values.emplace_back(value.substr(0, value.find_first_of("[:< ")));
    }
    list = absl::EndsWith(line, " of") || absl::EndsWith(line, " of:") ||
           absl::EndsWith(line, "One of") || (list && absl::StartsWith(line, "  "));
  }
  return values;
}

std::string NameOf(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return "--" + option.get_lnames()[0];
  if (!option.get_snames().empty()) return "-" + option.get_snames()[0];
  return option.get_name(/*positional=*/true);
}

FlagInfo Describe(const CLI::Option& option) {
  FlagInfo info;
  info.name = NameOf(option);
  info.description = option.get_description();
  info.default_text = option.get_default_str();
  info.takes_value = option.get_items_expected_max() > 0;
  info.required = option.get_required();
  info.repeats = option.get_items_expected_max() > 1 ||
                 option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  info.values = CheckedValues(option.get_type_name());
  if (info.values.empty()) info.values = ListedValues(info.description);
  return info;
}

// The part of AddCommand's text below the help without the exit codes.
std::string ExamplesOf(const std::string& footer) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(footer, '\n')) {
    if (absl::StartsWith(line, "Exit codes:")) break;
    if (absl::StartsWith(line, "  ")) lines.emplace_back(line);
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

CommandInfo Describe(const CLI::App& app) {
  CommandInfo info;
  for (const CLI::App* one = &app; one != nullptr; one = one->get_parent()) {
    info.words.insert(info.words.begin(), one->get_name());
  }
  info.description = app.get_description();
  info.examples = ExamplesOf(app.get_footer());
  for (const CLI::Option* option : app.get_options()) {
    (option->nonpositional() ? info.flags : info.arguments).push_back(Describe(*option));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    info.commands.push_back(Describe(*command));
  }
  return info;
}

}  // namespace folio::cli
