#include "services/runtime/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/time/time.h"
#include "services/runtime/byte_size.h"
#include "services/runtime/logging.h"
#include "tests/common/temp_dir.h"

ABSL_FLAG(folio::ByteSize, test_size, {7}, "a size");
ABSL_FLAG(std::vector<std::string>, test_list, {"default"}, "a list");
ABSL_FLAG(bool, test_switch, false, "a switch");
ABSL_FLAG(int32_t, test_count, 1, "a count from 0 to 10");
ABSL_FLAG(absl::Duration, test_wait, absl::Seconds(1), "a wait, such as 10s");

namespace folio {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FlagsTest : public ::testing::Test {
 protected:
  const absl::FlagSaver restore_;
  const testing::TempDir dir_;
};

TEST_F(FlagsTest, TakesEverySpelling) {
  auto line = ParseFlags({"--test-size=2GiB", "--test_count", "5", "--test-switch", "-test_wait=3s",
                          "positional", "--", "--test_count=9"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(absl::GetFlag(FLAGS_test_size).bytes, uint64_t{2} << 30);
  EXPECT_EQ(absl::GetFlag(FLAGS_test_count), 5);
  EXPECT_TRUE(absl::GetFlag(FLAGS_test_switch));
  EXPECT_EQ(absl::GetFlag(FLAGS_test_wait), absl::Seconds(3));
  EXPECT_THAT(line->positional, ElementsAre("positional", "--test_count=9"));
  ASSERT_TRUE(ParseFlags({"--notest-switch"}).ok());
  EXPECT_FALSE(absl::GetFlag(FLAGS_test_switch));
}

TEST_F(FlagsTest, ListsReplaceTheDefaultAndGrowWhenGivenAgain) {
  ASSERT_TRUE(ParseFlags({"--test_list=a,b", "--test-list", "c"}).ok());
  EXPECT_THAT(absl::GetFlag(FLAGS_test_list), ElementsAre("a", "b", "c"));
}

TEST_F(FlagsTest, ReadsFlagfiles) {
  std::ofstream(dir_ / "flags") << "# a comment\n\n  --test_size=1MiB\n--test-switch\n";
  ASSERT_TRUE(ParseFlags({"--flagfile=" + (dir_ / "flags"), "--test_count=3"}).ok());
  EXPECT_EQ(absl::GetFlag(FLAGS_test_size).bytes, uint64_t{1} << 20);
  EXPECT_TRUE(absl::GetFlag(FLAGS_test_switch));
  EXPECT_EQ(absl::GetFlag(FLAGS_test_count), 3);
}

TEST_F(FlagsTest, SeesHelpAndVersion) {
  EXPECT_TRUE(ParseFlags({"--help"})->help);
  EXPECT_TRUE(ParseFlags({"--version"})->version);
  // Only our own flags are listed, not those of libraries.
  EXPECT_THAT(FlagsHelp(), AllOf(HasSubstr("--log_format=text"), HasSubstr("--flagfile")));
}

TEST_F(FlagsTest, NamesTheFlagAndTheFix) {
  std::ofstream(dir_ / "words") << "hello\n";
  std::ofstream(dir_ / "bad") << "--test_count=x\n";
  std::ofstream(dir_ / "loop") << "--flagfile=" << dir_ / "loop"
                               << "\n";
  const struct {
    std::vector<std::string> args;
    std::vector<std::string> words;
  } kCases[] = {
      {{"--nope=1"}, {"unknown flag --nope", "--help"}},
      {{"--test_size=12parsecs"}, {"--test_size=12parsecs", "2GiB"}},
      {{"--test_size="}, {"--test_size=", "2GiB"}},
      {{"--test_size"}, {"--test_size needs a value"}},
      {{"--test_count=many"}, {"--test_count=many", "a count from 0 to 10"}},
      {{"--test_count=99999999999"}, {"--test_count", "a count from 0 to 10"}},
      {{"--test_switch=perhaps"}, {"--test_switch=perhaps"}},
      {{"--test_wait=soon"}, {"--test_wait=soon", "such as 10s"}},
      {{"--flagfile=/nonexistent"}, {"--flagfile=/nonexistent", "cannot read"}},
      {{"--flagfile=" + (dir_ / "words")}, {"line 1", "(\"hello\") is not a flag", "--name=value"}},
      {{"--flagfile=" + (dir_ / "bad")}, {"bad", "--test_count=x"}},
      {{"--flagfile=" + (dir_ / "loop")}, {"too deeply"}},
  };
  for (const auto& c : kCases) {
    auto line = ParseFlags(c.args);
    EXPECT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument) << c.args[0];
    for (const std::string& word : c.words) {
      EXPECT_THAT(std::string(line.status().message()), HasSubstr(word));
    }
  }
}

TEST_F(FlagsTest, RangesNameTheFlagAndBothEnds) {
  EXPECT_TRUE(CheckFlagRange("n", 1, 1, 3).ok());
  EXPECT_TRUE(CheckFlagRange("n", 3, 1, 3).ok());
  EXPECT_EQ(CheckFlagRange("n", 4, 1, 3).message(), "--n=4: must be from 1 to 3");
  EXPECT_FALSE(CheckFlagRange("n", 0, 1, 3).ok());
  EXPECT_TRUE(CheckFlagRange("t", absl::ZeroDuration(), absl::ZeroDuration(), absl::Hours(1)).ok());
  EXPECT_EQ(CheckFlagRange("t", -absl::Seconds(1), absl::ZeroDuration(), absl::Hours(1)).message(),
            "--t=-1s: must be from 0 to 1h, such as 10s");
  EXPECT_FALSE(
      CheckFlagRange("t", absl::InfiniteDuration(), absl::Seconds(1), absl::Hours(1)).ok());
}

TEST_F(FlagsTest, LogFlagsAreChecked) {
  ASSERT_TRUE(ParseFlags({"--log-format=xml"}).ok());
  EXPECT_THAT(std::string(log::ConfigureFromFlags().message()),
              AllOf(HasSubstr("--log_format=xml"), HasSubstr("text or json")));
  ASSERT_TRUE(ParseFlags({"--log-format=json", "--log_level=loud"}).ok());
  EXPECT_THAT(std::string(log::ConfigureFromFlags().message()),
              AllOf(HasSubstr("--log_level=loud"), HasSubstr("debug, info, warning or error")));
}

}  // namespace
}  // namespace folio
