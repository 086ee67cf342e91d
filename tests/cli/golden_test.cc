// The output of commands on fixed facts, in all forms, compared with the files of golden/.
#include "tests/cli/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "services/cli/output.h"
#include "tests/cli/fixed_manager.h"
#include "tests/cli/run_cli.h"

namespace folio::cli {
namespace {

using ::folio::testing::Cli;
using ::folio::testing::CliResult;
using ::folio::testing::ExpectGolden;
using ::folio::testing::FillManager;
using ::folio::testing::Folioctl;
using ::folio::testing::ScriptedAdmin;
using ::testing::HasSubstr;

struct Case {
  const char* file;
  std::vector<std::string> arguments;
};

class Golden : public ::testing::TestWithParam<Case> {};

TEST_P(Golden, OutputIsAsInTheFile) {
  ScriptedAdmin admin;
  FillManager(admin);
  std::vector<std::string> arguments = GetParam().arguments;
  arguments.insert(arguments.end(), {"--address", admin.address()});
  Cli cli;
  cli.utf8 = true;
  const CliResult result = cli.Run(arguments);
  EXPECT_EQ(result.code, 0) << result.err;
  ExpectGolden(GetParam().file, result.out);
}

INSTANTIATE_TEST_SUITE_P(
    All, Golden,
    ::testing::Values(
        Case{"pools.txt", {"pools"}}, Case{"pools_wide.txt", {"pools", "--output", "wide"}},
        Case{"pools.json", {"pools", "--output", "json"}},
        Case{"pools.yaml", {"pools", "--output", "yaml"}}, Case{"sequences.txt", {"sequences"}},
        Case{"sequences_wide.txt", {"sequences", "--output", "wide"}},
        Case{"sequences.yaml", {"sequences", "--output", "yaml"}},
        Case{"sequences_query.json",
             {"sequences", "--query",
              "sort_by(sequences, &logical_length)[?held_pages>`30`].{id: sequence_id, label: "
              "label, policy: cache.policy, bytes: to_number(held_bytes)}"}},
        Case{"sequences_query.yaml",
             {"sequences", "--output", "yaml", "--query",
              "sequences[].{worker: worker_id, id: to_number(sequence_id), state: state}"}},
        Case{"sequence.txt", {"sequence", "7"}},
        Case{"sequence_history.txt", {"sequence", "7", "--history"}},
        Case{"tenants.txt", {"tenants"}}, Case{"tenants_wide.txt", {"tenants", "--output", "wide"}},
        Case{"tenants.json", {"tenants", "--output", "json"}},
        Case{"pages.txt", {"pages", "--rows", "3"}},
        Case{"pages_owner.txt", {"pages", "--by", "owner", "--rows", "3"}},
        Case{"pages_score.txt", {"pages", "--by", "score", "--rows", "3"}},
        Case{"pages.yaml", {"pages", "--output", "yaml"}}),
    [](const auto& one) {
      std::string name = one.param.file;
      for (char& c : name) c = c == '.' ? '_' : c;
      return name;
    });

TEST(GoldenHelp, APageOfTheManual) {
  unsetenv("XDG_RUNTIME_DIR");
  CliResult page = Folioctl({"man", "quarantine", "release"});
  EXPECT_EQ(page.code, 0) << page.err;
  // The version is not part of what is compared.
  const size_t version = page.out.find("Folio 0");
  ASSERT_NE(version, std::string::npos);
  page.out.replace(version, page.out.find('"', version) - version, "Folio VERSION");
  ExpectGolden("folioctl-quarantine-release.1", page.out);
}

TEST(Yaml, HasWhatJsonHas) {
  const nlohmann::ordered_json value = {
      {"plain", "words-and_dots.3"},
      {"quoted", {"", "1", "true", "No", "a: b", "- x", "two\nlines", "ü", "a#b"}},
      {"numbers", {1, -2.5, true, nullptr}},
      {"empty",
       {{"list", nlohmann::ordered_json::array()}, {"object", nlohmann::ordered_json::object()}}},
      {"nested", {{{"a", 1}, {"b", {1, 2}}}, {{"c", {{"d", "e"}}}}}}};
  ExpectGolden("values.yaml", ToYaml(value));
  EXPECT_EQ(ToYaml(nlohmann::ordered_json::array()), "[]\n");
}

TEST(Yaml, AStreamIsOneOfDocuments) {
  ScriptedAdmin admin;
  for (uint64_t number = 1; number < 3; ++number) {
    admin.events.emplace_back().mutable_event()->set_number(number);
  }
  const CliResult result = Folioctl({"events", "--output", "yaml", "--address", admin.address()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("---\nevent:\n  number: \"1\"\n"));
  EXPECT_THAT(result.out, HasSubstr("---\nevent:\n  number: \"2\"\n"));
}

}  // namespace
}  // namespace folio::cli
